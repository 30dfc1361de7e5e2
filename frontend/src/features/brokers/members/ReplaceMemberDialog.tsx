import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import type { MemberDialog } from "@/features/brokers/members/members";
import { OUTDATED } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

const NODE_ID_CHARS_MAX = 100;

/** Have another node replace a member. Metaservers complete it while the group serves. */
export function ReplaceMemberDialog({ group, etag, onClose }: MemberDialog) {
  const { t } = useTranslation("brokers");
  const { name, members } = group;
  const spares = group.member_states.filter((state) => !state.is_member).map((state) => state.node_id);
  const [node, setNode] = useState(members.length === 1 ? (members[0] ?? "") : "");
  const [replacement, setReplacement] = useState(spares.length === 1 ? (spares[0] ?? "") : "");
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("replace_member.title", { name })}
      actionLabel={t("replace_member.do")}
      doneMessage={t("replace_member.done", { node, replacement })}
      inputs={`${node} ${replacement}`}
      isReady={node !== "" && replacement !== ""}
      run={(attempt) =>
        change("post", "/api/v1/broker-groups/{name}/members/replace/", attempt, {
          path: { name },
          etag,
          body: { node, replacement },
        })
      }
      refreshes={OUTDATED}
    >
      <Text size="sm">{t("replace_member.about")}</Text>
      <NativeSelect
        label={t("replace_member.node")}
        data={[{ value: "", label: "" }, ...members.map((value) => ({ value, label: value }))]}
        value={node}
        onChange={(event) => setNode(event.currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label={t("replace_member.replacement")}
        description={t("replace_member.replacement_hint")}
        maxLength={NODE_ID_CHARS_MAX}
        value={replacement}
        onChange={(event) => setReplacement(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
