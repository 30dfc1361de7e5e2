import { useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { acknowledge, alertsKey, type Alert } from "@/features/alerts/queries";
import { PlanDialog } from "@/ui/ChangeDialog";
import { useRuleName } from "@/ui/ruleNames";

/** Say that one has it in hand: whoever looks next sees by whom, and what is being done. */
export function AcknowledgeDialog({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const client = useQueryClient();
  return (
    <PlanDialog
      opened
      onClose={onClose}
      title={t("acknowledge.title", { rule: ruleName(alert.rule), target: alert.target })}
      actionLabel={t("acknowledge.action")}
      doneMessage={t("acknowledge.done")}
      reasonField={{ label: t("acknowledge.note"), description: t("acknowledge.note_hint") }}
      run={(attempt) => acknowledge(alert.id, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}
