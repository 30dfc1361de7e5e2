import { NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import type { MemberDialog } from "@/features/brokers/members/members";
import { OUTDATED } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Remove a member, or cancel a replacement by choosing its new node. The master switches over first. */
export function RemoveMemberDialog({ group, etag, onClose }: MemberDialog) {
  const { t } = useTranslation("brokers");
  const { name, members, replacement } = group;
  const [node, setNode] = useState("");
  const nodes = [...members, ...(replacement && !members.includes(replacement) ? [replacement] : [])];
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("remove_member.title", { name })}
      actionLabel={t("remove_member.do")}
      doneMessage={t("remove_member.done", { node })}
      confirmName={node || undefined}
      inputs={node}
      isReady={node !== ""}
      run={(attempt) =>
        change("post", "/api/v1/broker-groups/{name}/members/remove/", attempt, {
          path: { name },
          etag,
          body: { node },
        })
      }
      refreshes={OUTDATED}
    >
      <Text size="sm">{t("remove_member.about")}</Text>
      <NativeSelect
        label={t("remove_member.node")}
        data={[{ value: "", label: "" }, ...nodes.map((value) => ({ value, label: value }))]}
        value={node}
        onChange={(event) => setNode(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
