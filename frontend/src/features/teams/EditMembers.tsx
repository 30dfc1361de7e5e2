import { MultiSelect } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { MEMBERS_MAX, setMembers, memberNamesOptions, usersLikeOptions } from "@/features/teams/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { QueryProblem } from "@/ui/loaded";

const TYPING_MS = 250;

/** Who is in the team; the plan shows who comes and who goes. */
export function EditMembers({
  team,
  etag,
  opened,
  onClose,
  onDone,
}: {
  team: string;
  etag: string | null;
  opened: boolean;
  onClose: () => void;
  onDone: () => void;
}) {
  const { t } = useTranslation("teams");
  const [chosen, setChosen] = useState<string[] | null>(null);
  const [search, setSearch] = useState("");
  const [wanted] = useDebouncedValue(search, TYPING_MS);
  const now = useQuery({ ...memberNamesOptions(team), enabled: opened });
  const found = useQuery({ ...usersLikeOptions(wanted), enabled: opened, placeholderData: keepPreviousData });
  const members = chosen ?? now.data ?? [];
  return (
    <ChangeDialog
      opened={opened}
      onClose={() => {
        setChosen(null);
        onClose();
      }}
      title={t("members.edit")}
      run={(attempt) => setMembers(team, members, etag, attempt)}
      inputs={JSON.stringify(members)}
      isReady={chosen !== null}
      actionLabel={t("common:action.save")}
      doneMessage={t("members.done", { name: team })}
      onDone={onDone}
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
