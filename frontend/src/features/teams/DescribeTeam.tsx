import { TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { describeTeam, type Team } from "@/features/teams/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

/** Say anew what a team does. */
export function DescribeTeam({
  team,
  etag,
  opened,
  onClose,
  onDone,
}: {
  team: Team;
  etag: string | null;
  opened: boolean;
  onClose: () => void;
  onDone: () => void;
}) {
  const { t } = useTranslation("teams");
  const [typed, setTyped] = useState<string | null>(null);
  const description = typed ?? team.description;
  return (
    <ChangeDialog
      opened={opened}
      onClose={() => {
        setTyped(null);
        onClose();
      }}
      title={t("describe.title")}
      run={(attempt) => describeTeam(team.name, description, etag, attempt)}
      inputs={description}
      isReady={typed !== null}
      actionLabel={t("common:action.save")}
      doneMessage={t("describe.done", { name: team.name })}
      onDone={onDone}
    >
      <TextInput
        label={t("column.description")}
        value={description}
        maxLength={500}
        data-autofocus
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
