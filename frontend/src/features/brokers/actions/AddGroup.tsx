import { NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { OUTDATED, type Kind } from "@/features/brokers/queries";
import { firstNode } from "@/features/brokers/actions/startCommand";
import { fieldsOf } from "@/ui/fields";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Snippet, useClientAddress } from "@/shared/Teach";
import { Dialog } from "@/ui/dialog/Dialog";

const NEW = { name: "", kind: "broker" as Kind, description: "" };

/** Announce a broker or delay group, then show the command that starts its first node. */
export function AddGroup({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("brokers");
  const [draft, setDraft] = useState(NEW);
  const fields = fieldsOf(draft, (some) => setDraft({ ...draft, ...some }), "NewBrokerGroupRequest");
  const group = { ...draft, name: draft.name.trim() };
  const [added, setAdded] = useState<typeof NEW | null>(null);
  return (
    <>
      <ChangeDialog
        opened={opened}
        onClose={onClose}
        title={t("add.title")}
        run={(attempt) => change("post", "/api/v1/broker-groups/", attempt, { body: group })}
        inputs={JSON.stringify(draft)}
        isReady={group.name !== ""}
        actionLabel={t("add.do")}
        doneMessage={t("add.done", { name: group.name })}
        refreshes={OUTDATED}
        onDone={() => {
          setAdded(group);
          setDraft(NEW);
        }}
      >
        <Text size="sm" c="dimmed">
          {t("add.about")}
        </Text>
        <TextInput
          label={t("column.name")}
          description={t("add.name_hint")}
          required
          autoComplete="off"
          spellCheck={false}
          {...fields.text("name")}
        />
        <NativeSelect
          label={t("column.kind")}
          data={(["broker", "delay"] as const).map((value) => ({ value, label: t(`kind_long.${value}`) }))}
          {...fields.text("kind")}
        />
        <TextInput label={t("column.description")} {...fields.text("description")} />
      </ChangeDialog>
      <Dialog
        opened={added !== null}
        onClose={() => setAdded(null)}
        title={t("add.next", { name: added?.name })}
        size="xl"
      >
        {added && <StartHelp kind={added.kind} name={added.name} />}
      </Dialog>
    </>
  );
}

/** How the first node of a group is started. */
export function StartHelp({ kind, name }: { kind: Kind; name: string }) {
  const { t } = useTranslation("brokers");
  return (
    <Stack gap="sm">
      <Text>{t("start.text")}</Text>
      <Snippet code={firstNode(kind, name, useClientAddress())} />
      <Text size="sm" c="dimmed">
        {t("start.fill_in")}
      </Text>
    </Stack>
  );
}
