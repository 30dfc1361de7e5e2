import { TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { change } from "@/api/requests";
import { teamsKey } from "@/features/teams/queries";
import { PlanDialog } from "@/ui/ChangeDialog";
import { fieldsOf } from "@/ui/fields";

const EMPTY = { name: "", description: "" };

/** A new team, without members yet. */
export function CreateTeam({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("teams");
  const [team, setTeam] = useState(EMPTY);
  const fields = fieldsOf(team, (some) => setTeam({ ...team, ...some }), "NewTeamRequest");
  return (
    <PlanDialog
      opened={opened}
      onClose={onClose}
      title={t("create.title")}
      run={(attempt) => change("post", "/api/v1/teams/", attempt, { body: { ...team, name: team.name.trim() } })}
      inputs={JSON.stringify(team)}
      isReady={team.name.trim() !== ""}
      actionLabel={t("common:action.create")}
      doneMessage={t("create.done", { name: team.name.trim() })}
      refreshes={[teamsKey]}
      onDone={() => setTeam(EMPTY)}
    >
      <TextInput
        label={t("column.name")}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        {...fields.text("name")}
      />
      <TextInput label={t("column.description")} {...fields.text("description")} />
    </PlanDialog>
  );
}
