import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { alertsKey, changeRule, createRule, type Rule } from "@/features/alerts/queries";
import { draftOf, isComplete, NEW_RULE, toRule } from "@/features/alerts/ruleDraft";
import { RuleFields } from "@/features/alerts/RuleFields";
import { ChangeDialog } from "@/ui/ChangeDialog";

/** Make a rule, or change one. */
export function RuleDialog({ rule, onClose }: { rule: Rule | null; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  const [draft, setDraft] = useState(() => (rule ? draftOf(rule) : NEW_RULE));
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={rule ? t("rule.edit", { name: rule.name }) : t("rule.create")}
      actionLabel={t(rule ? "common:action.save" : "common:action.create")}
      doneMessage={t(rule ? "rule.changed" : "rule.created", { name: draft.name })}
      inputs={JSON.stringify(draft)}
      isReady={isComplete(draft)}
      run={(attempt) => {
        const { kind, ...changes } = toRule(draft);
        return rule ? changeRule(rule, changes, attempt) : createRule({ kind, ...changes }, attempt);
      }}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    >
      <RuleFields draft={draft} onChange={setDraft} isNew={rule === null} />
    </ChangeDialog>
  );
}
