import { NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { announce, refresh, type Kind } from "@/features/brokers/queries";
import { firstNode } from "@/features/brokers/startCommand";
import { useClientAddress } from "@/ui/useClientAddress";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Snippet } from "@/ui/Teach";
import { Dialog } from "@/ui/Dialog";

const NEW = { name: "", kind: "broker" as Kind, description: "" };

/** Announce a broker or delay group, then show the command that starts its first node. */
export function AddGroup({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("brokers");
  const client = useQueryClient();
  const [draft, setDraft] = useState(NEW);
  const [added, setAdded] = useState<typeof NEW | null>(null);
  return (
    <>
      <ChangeDialog
        opened={opened}
        onClose={onClose}
        title={t("add.title")}
        run={(attempt) => announce(draft, attempt)}
        inputs={JSON.stringify(draft)}
        isReady={draft.name.trim() !== ""}
        actionLabel={t("add.do")}
        doneMessage={t("add.done", { name: draft.name })}
        onDone={() => {
          setAdded(draft);
          setDraft(NEW);
          void refresh(client);
        }}
      >
        <Text size="sm" c="dimmed">
          {t("add.about")}
        </Text>
        <TextInput
          label={t("column.name")}
          description={t("add.name_hint")}
          required
          maxLength={100}
          autoComplete="off"
          spellCheck={false}
          value={draft.name}
          onChange={(event) => setDraft({ ...draft, name: event.currentTarget.value.trim() })}
        />
        <NativeSelect
          label={t("column.kind")}
          value={draft.kind}
          onChange={(event) => setDraft({ ...draft, kind: event.currentTarget.value as Kind })}
          data={(["broker", "delay"] as const).map((value) => ({ value, label: t(`kind_long.${value}`) }))}
        />
        <TextInput
          label={t("column.description")}
          maxLength={500}
          value={draft.description}
          onChange={(event) => setDraft({ ...draft, description: event.currentTarget.value })}
        />
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
