import { TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createTeam, teamsKey } from "@/features/teams/queries";
import { PlanDialog } from "@/ui/ChangeDialog";

/** A new team, without members yet. */
export function CreateTeam({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("teams");
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  return (
    <PlanDialog
      opened={opened}
      onClose={onClose}
      title={t("create.title")}
      run={(attempt) => createTeam(name, description, attempt)}
      inputs={JSON.stringify([name, description])}
      isReady={name !== ""}
      actionLabel={t("common:action.create")}
      doneMessage={t("create.done", { name })}
      onDone={() => {
        setName("");
        setDescription("");
        void client.invalidateQueries({ queryKey: teamsKey });
      }}
    >
      <TextInput
        label={t("column.name")}
        value={name}
        maxLength={60}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        onChange={(event) => setName(event.currentTarget.value.trim())}
      />
      <TextInput
        label={t("column.description")}
        value={description}
        maxLength={500}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </PlanDialog>
  );
}
