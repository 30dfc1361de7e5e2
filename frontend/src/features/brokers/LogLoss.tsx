import { Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { limitsOf } from "@/api/limits";
import { change } from "@/api/requests";
import { OUTDATED } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

/** Give up what a node's log had above its end now. The reason is not left empty: somebody will ask one day. */
export function LogLoss({ nodeId, logEnd, onClose }: { nodeId: string; logEnd: string; onClose: () => void }) {
  const { t } = useTranslation("brokers");
  const [reason, setReason] = useState("");
  // The page goes on asking the node: what is accepted is what was read when this was opened.
  const [end] = useState(logEnd);
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("loss.dialog", { node: nodeId })}
      confirmName={nodeId}
      actionLabel={t("loss.do")}
      doneMessage={t("loss.done", { node: nodeId })}
      run={({ dryRun }) =>
        change(
          "post",
          "/api/v1/nodes/{node_id}/accept-log-loss/",
          { dryRun, reason: reason.trim() },
          { path: { node_id: nodeId }, body: { log_end: end } },
        )
      }
      inputs={reason}
      isReady={reason.trim() !== ""}
      reasonField={false}
      refreshes={OUTDATED}
    >
      <Text size="sm">{t("loss.warning")}</Text>
      <Textarea
        label={t("loss.why")}
        required
        maxLength={limitsOf("LogLossRequest", "reason").maxLength}
        rows={3}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
