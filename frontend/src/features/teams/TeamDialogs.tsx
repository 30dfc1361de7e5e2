import { MultiSelect, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState, type ComponentProps } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { limitsOf } from "@/api/limits";
import { change } from "@/api/requests";
import { memberNamesOptions, MEMBERS_MAX, usersLikeOptions, type Team } from "@/features/teams/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { QueryProblem } from "@/ui/page/loaded";

const TYPING_MS = 250;

type Shared = Pick<ComponentProps<typeof ChangeDialog>, "onClose" | "refreshes">;

/** Who is in the team; the preview shows who comes and who goes. */
export function EditMembers({ team, etag, ...shared }: Shared & { team: string; etag: string | null }) {
  const { t } = useTranslation("teams");
  const [chosen, setChosen] = useState<string[] | null>(null);
  const [search, setSearch] = useState("");
  const [wanted] = useDebouncedValue(search, TYPING_MS);
  const now = useQuery(memberNamesOptions(team));
  const found = useQuery({ ...usersLikeOptions(wanted), placeholderData: keepPreviousData });
  const members = chosen ?? now.data ?? [];
  return (
    <ChangeDialog
      {...shared}
      title={t("members.edit")}
      run={(attempt) =>
        change("put", "/api/v1/teams/{team}/members/", attempt, { path: { team }, etag, body: { members } })
      }
      inputs={JSON.stringify(members)}
      isReady={chosen !== null}
      actionLabel={t("common:action.save")}
      doneMessage={t("members.done", { name: team })}
    >
      <QueryProblem of={now} />
      <QueryProblem of={found} />
      <MultiSelect
        label={t("members.title")}
        description={t("members.hint")}
        searchable
        hidePickedOptions
        disabled={!now.isSuccess}
        maxValues={MEMBERS_MAX}
        value={members}
        onChange={setChosen}
        searchValue={search}
        onSearchChange={setSearch}
        data={[...new Set([...members, ...(found.data ?? [])])]}
        nothingFoundMessage={t("members.nobody")}
      />
    </ChangeDialog>
  );
}

/** Change the description of a team. */
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
