import "@/shared/filters/filters.css";
import { Alert, Badge, Button, Code, Group, Loader, Stack, Text } from "@mantine/core";
import { IconBookmark, IconPencil, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { EditFilter } from "@/shared/filters/EditFilter";
import { remove, savedKey, savedOptions, type SavedFilter } from "@/shared/filters/savedFilters";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Dialog } from "@/ui/dialog/Dialog";
import { Instant } from "@/ui/measure/Instant";
import { IconButton, TextButton } from "@/ui/menu/buttons";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

interface Props {
  subject: string;
  /** The filter in the field. */
  current: string;
  onChoose: (filter: string) => void;
  onClose: () => void;
}

type View = { kind: "list" } | { kind: "edit"; row: SavedFilter | null } | { kind: "delete"; row: SavedFilter };

const LIST: View = { kind: "list" };

/** The saved filters of a subject: choose one, save the current one, change or delete one. */
export function SavedFilters({ subject, current, onChoose, onClose }: Props) {
  const { t } = useTranslation("saved_filters");
  const [view, setView] = useState<View>(LIST);
  const back = () => setView(LIST);
  if (view.kind === "edit") return <EditFilter subject={subject} row={view.row} current={current} onClose={back} />;
  if (view.kind === "delete") {
    const { row } = view;
    return (
      <ChangeDialog
        onClose={back}
        title={t("delete.title", { name: row.name })}
        means={row.team ? t("delete.shared", { team: row.team }) : t("delete.own")}
        run={(attempt) => remove(subject, row, attempt)}
        actionLabel={t("common:action.delete")}
        doneMessage={t("delete.done")}
        refreshes={[savedKey(subject)]}
      />
    );
  }
  return (
    <Dialog opened onClose={onClose} title={t("title", { subject })} size="lg">
      <List subject={subject} current={current} onChoose={onChoose} onView={setView} />
    </Dialog>
  );
}

function List({ subject, current, onChoose, onView }: Omit<Props, "onClose"> & { onView: (view: View) => void }) {
  const { t } = useTranslation("saved_filters");
  const { data, error, isPending, refetch } = useQuery(savedOptions(subject));
  if (error) return <ProblemAlert error={error} onRetry={() => void refetch()} />;
  if (isPending) return <Loader size="sm" aria-label={t("common:state.loading")} />;
  const rows = data.results;
  const known = rows.find(({ filter }) => filter === current);
  return (
    <Stack gap="sm">
      {current !== "" && (
        <Group gap="xs" wrap="nowrap">
          <Code className="break grow">{current}</Code>
          {known ? (
            <Text size="sm">{t("is_saved", { name: known.name })}</Text>
          ) : (
            <Button
              size="sm"
              leftSection={<IconBookmark size={16} aria-hidden />}
              onClick={() => onView({ kind: "edit", row: null })}
              data-action="save-filter"
            >
              {t("save.open")}
            </Button>
          )}
        </Group>
      )}
      {rows.length === 0 && (
        <Alert color="gray" title={t("empty.title")}>
          {t("empty.text")}
        </Alert>
      )}
      {rows.map((row) => (
        <Line key={row.id} row={row} onChoose={onChoose} onView={onView} />
      ))}
    </Stack>
  );
}

function Line({ row, onChoose, onView }: Pick<Props, "onChoose"> & { row: SavedFilter; onView: (view: View) => void }) {
  const { t } = useTranslation("saved_filters");
  const { name } = row;
  return (
    <Group gap="xs" wrap="nowrap" align="flex-start" data-saved-filter={name}>
      <div className="grow">
        <Group gap="xs">
          <TextButton fw={600} onClick={() => onChoose(row.filter)}>
            {name}
          </TextButton>
          <Badge variant="light" color={row.is_team_deleted ? "yellow" : "gray"} tt="none">
            {row.is_team_deleted ? t("who.deleted", { team: row.team }) : (row.team ?? t("who.own"))}
          </Badge>
          <Text size="xs" c="dimmed">
            {t("by", { who: row.by })} <Instant at={row.created_at} relative />
          </Text>
        </Group>
        <Text size="sm" className="break filter-code" lineClamp={2} title={row.filter}>
          {row.filter}
        </Text>
      </div>
      <IconButton
        icon={IconPencil}
        label={t("edit.open", { name })}
        hint={t("common:action.edit")}
        onClick={() => onView({ kind: "edit", row })}
      />
      <IconButton
        icon={IconTrash}
        label={t("delete.open", { name })}
        hint={t("common:action.delete")}
        onClick={() => onView({ kind: "delete", row })}
      />
    </Group>
  );
}
