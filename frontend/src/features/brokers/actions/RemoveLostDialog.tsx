import { Alert, Textarea } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Change } from "@/api/client";
import { limitsOf } from "@/api/limits";
import { asProblem } from "@/api/problem";
import { change, type Attempt } from "@/api/requests";
import { brokersKey, OUTDATED, type BrokerGroupDetail } from "@/features/brokers/queries";
import { isRecord, textOf } from "@/format/values";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Another loss was accepted than there is. */
const NOT_ACCEPTED = "broker_group.loss_not_accepted";

/** Remove a group that is lost. The dry run returns the loss, and the operator types it. */
export function RemoveLostDialog({
  group: { name, kind },
  etag,
  onClose,
}: {
  group: BrokerGroupDetail;
  etag: string | null;
  onClose: () => void;
}) {
  const { t } = useTranslation("brokers");
  const client = useQueryClient();
  const navigate = useNavigate();
  const [reason, setReason] = useState("");
  const [atRisk, setAtRisk] = useState<string | null>(null);
  const [rejected, setRejected] = useState(0);

  async function run({ dryRun }: Attempt): Promise<Change> {
    const attempt = { dryRun, reason: reason.trim() };
    try {
      const preview = await change("post", "/api/v1/broker-groups/{name}/remove-lost/", attempt, {
        path: { name },
        etag,
        body: { ...(!dryRun && { accept_loss: atRisk }) },
      });
      if (dryRun) setAtRisk(isRecord(preview.after) ? textOf(preview.after.at_risk) : null);
      return preview;
    } catch (error) {
      // The number has changed since the preview: the next step is another preview.
      if (asProblem(error).code === NOT_ACCEPTED) setRejected(rejected + 1);
      throw error;
    }
  }

  return (
    <ChangeDialog
      onClose={onClose}
      title={t("remove_lost.title", { name })}
      confirmName={atRisk ?? undefined}
      actionLabel={t("remove_lost.do")}
      doneMessage={t("action.remove.done", { name })}
      inputs={JSON.stringify([reason, rejected])}
      isReady={reason.trim() !== ""}
      reasonField={false}
      means={atRisk === null ? undefined : t(`remove_lost.at_risk_${kind}`, { loss: atRisk })}
      run={run}
      refreshes={OUTDATED}
      onDone={() => {
        void navigate({ to: "/brokers" });
        client.removeQueries({ queryKey: [...brokersKey, "one", name] });
      }}
    >
      <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={t("promote.warning")}>
        {t("remove_lost.about")}
      </Alert>
      <Textarea
        label={t("loss.why")}
        required
        maxLength={limitsOf("LostGroupRequest", "reason").maxLength}
        rows={2}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
