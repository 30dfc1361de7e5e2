import { NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { successors, type MemberDialog } from "@/features/brokers/members/members";
import { OUTDATED } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Have a slave become the master. The dry run says which one, or why none can. */
export function SwitchOverDialog({ group, etag, onClose }: MemberDialog) {
  const { t } = useTranslation("brokers");
  const { name, master } = group;
  const [to, setTo] = useState("");
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("switch_over.title", { name })}
      actionLabel={t("switch_over.do")}
      doneMessage={t("switch_over.done", { name })}
      inputs={to}
      run={(attempt) =>
        change("post", "/api/v1/broker-groups/{name}/switch-over/", attempt, {
          path: { name },
          etag,
          body: { to, rehearsal: "" },
        })
      }
      refreshes={OUTDATED}
    >
      <Text size="sm">{t("switch_over.about", { master })}</Text>
      <NativeSelect
        label={t("switch_over.to")}
        data={[
          { value: "", label: t("switch_over.any") },
          ...successors(group.member_states).map(({ node_id: node }) => ({ value: node, label: node })),
        ]}
        value={to}
        onChange={(event) => setTo(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
