import { Alert, NativeSelect, Textarea } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Change } from "@/api/client";
import { limitsOf } from "@/api/limits";
import { asProblem } from "@/api/problem";
import { change, type Attempt } from "@/api/requests";
import { servingMaster, type MemberDialog } from "@/features/brokers/members/members";
import { OUTDATED } from "@/features/brokers/queries";
import { isRecord, textOf } from "@/format/values";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Another number of bytes is at risk than was accepted. */
const NOT_ACCEPTED = "broker_group.loss_not_accepted";

/**
 * Promote a member that may lack acknowledged messages. The dry run returns the bytes at risk, and the operator types
 * them.
 */
export function PromoteDialog({ group, etag, onClose }: MemberDialog) {
  const { t } = useTranslation("brokers");
  const { name } = group;
  const serving = servingMaster(group.member_states);
  const members = group.member_states.filter(
    ({ is_member: isMember, node_id: id }) => isMember && id !== serving?.node_id,
  );
  const [node, setNode] = useState(members[0]?.node_id ?? "");
  const [reason, setReason] = useState("");
  const [atRisk, setAtRisk] = useState<string | null>(null);
  const [rejected, setRejected] = useState(0);

  async function run({ dryRun }: Attempt): Promise<Change> {
    const attempt = { dryRun, reason: reason.trim() };
    try {
      const preview = await change("post", "/api/v1/broker-groups/{name}/promote/", attempt, {
        path: { name },
        etag,
        body: { node, ...(!dryRun && { accept_loss_bytes: atRisk }) },
      });
      if (dryRun) setAtRisk(isRecord(preview.after) ? textOf(preview.after.bytes_at_risk) : null);
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
      title={t("promote.title", { name })}
      confirmName={atRisk ?? undefined}
      actionLabel={t("promote.do")}
      doneMessage={t("promote.done", { node })}
      inputs={JSON.stringify([node, reason, rejected])}
      isReady={node !== "" && reason.trim() !== ""}
      reasonField={false}
      means={atRisk === null ? undefined : t("promote.at_risk", { bytes: atRisk })}
      run={run}
      refreshes={OUTDATED}
    >
      <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={t("promote.warning")}>
        {t("promote.about")}
      </Alert>
      <NativeSelect
        label={t("members.node")}
        data={members.map(({ node_id: id, role }) => ({
          value: id,
          label: `${id} (${t(`members.roles.${role}`, { defaultValue: role })})`,
        }))}
        value={node}
        onChange={(event) => setNode(event.currentTarget.value)}
        data-autofocus
      />
      <Textarea
        label={t("loss.why")}
        required
        maxLength={limitsOf("PromotionRequest", "reason").maxLength}
        rows={2}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
