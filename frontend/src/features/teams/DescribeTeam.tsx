import { TextInput } from "@mantine/core";
import { useState, type ComponentProps } from "react";
import { useTranslation } from "react-i18next";
import { limitsOf } from "@/api/limits";
import { change } from "@/api/requests";
import type { Team } from "@/features/teams/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

type Shared = Pick<ComponentProps<typeof ChangeDialog>, "onClose" | "refreshes">;

/** Say anew what a team does. */
export function DescribeTeam({ team, etag, ...shared }: Shared & { team: Team; etag: string | null }) {
  const { t } = useTranslation("teams");
  const [description, setDescription] = useState(team.description);
  return (
    <ChangeDialog
      {...shared}
      title={t("describe.title")}
      run={(attempt) =>
        change("patch", "/api/v1/teams/{team}/", attempt, { path: { team: team.name }, etag, body: { description } })
      }
      inputs={description}
      isReady={description !== team.description}
      actionLabel={t("common:action.save")}
      doneMessage={t("describe.done", { name: team.name })}
    >
      <TextInput
        label={t("column.description")}
        value={description}
        maxLength={limitsOf("PatchedTeamChangeRequest", "description").maxLength}
        data-autofocus
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
