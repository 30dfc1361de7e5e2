import { NativeSelect } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { LossDialog } from "@/features/brokers/LossDialog";
import { servingMaster, type MemberDialog } from "@/features/brokers/members/members";

/** Promote a member that may lack acknowledged messages. */
export function PromoteDialog({ group, etag, onClose }: MemberDialog) {
  const { t } = useTranslation("brokers");
  const { name } = group;
  const serving = servingMaster(group.member_states);
  const members = group.member_states.filter(
    ({ is_member: isMember, node_id: id }) => isMember && id !== serving?.node_id,
  );
  const [node, setNode] = useState(members[0]?.node_id ?? "");
  return (
    <LossDialog
      title={t("promote.title", { name })}
      about={t("promote.about")}
      actionLabel={t("promote.do")}
      doneMessage={t("promote.done", { node })}
      request="PromotionRequest"
      run={(attempt, loss) =>
        change("post", "/api/v1/broker-groups/{name}/promote/", attempt, {
          path: { name },
          etag,
          body: { node, ...(loss !== null && { accept_loss_bytes: loss }) },
        })
      }
      lossField="bytes_at_risk"
      meaning={(bytes) => t("promote.at_risk", { bytes })}
      inputs={node}
      isReady={node !== ""}
      onClose={onClose}
    >
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
    </LossDialog>
  );
}
