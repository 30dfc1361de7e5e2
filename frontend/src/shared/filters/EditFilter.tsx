import { NativeSelect, Text, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Change } from "@/api/client";
import { useMe } from "@/api/me";
import { placeOptions } from "@/api/owner";
import { save, savedKey, teamsFor, update, type Draft, type SavedFilter } from "@/shared/filters/savedFilters";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";

interface Props {
  subject: string;
  /** The filter to change; null: a new one. */
  row: SavedFilter | null;
  /** What a new one is, to begin with. */
  current: string;
  onClose: () => void;
}

/** Save a filter, or change one: its name, what it finds, and who sees it. */
export function EditFilter({ subject, row, current, onClose }: Props) {
  const { t } = useTranslation("saved_filters");
  const me = useMe();
  const { data: place } = useQuery(placeOptions(subject));
  // The filter of a deleted team belongs to no team that can be chosen: the administrator gives it to one.
  const [draft, setDraft] = useState<Draft>(
    row
      ? { name: row.name, filter: row.filter, team: row.is_team_deleted ? "" : (row.team ?? "") }
      : { name: "", filter: current, team: "" },
  );
  const fields = fieldsOf(draft, (some) => setDraft({ ...draft, ...some }), "NewSavedFilterRequest");
  const teams = teamsFor(me, place?.owner ?? null);
  const others = draft.team && !teams.includes(draft.team) ? [draft.team] : [];
  return (
    <PreviewDialog<Change>
      onClose={onClose}
      title={row ? t("edit.title", { name: row.name }) : t("save.title", { subject })}
      run={(attempt) => (row ? update(subject, row, draft, attempt) : save(subject, draft, attempt))}
      actionLabel={t("common:action.save")}
      doneMessage={t("save.done")}
      isReady={draft.name.trim() !== "" && draft.filter.trim() !== ""}
      refreshes={[savedKey(subject)]}
    >
      <TextInput label={t("common:field.name")} data-autofocus {...fields.text("name")} />
      <Textarea
        label={t("common:field.filter")}
        classNames={{ input: "filter-code" }}
        spellCheck={false}
        autosize
        maxRows={8}
        {...fields.text("filter")}
      />
      <NativeSelect
        label={t("share.label")}
        {...fields.text("team")}
        data={[
          { value: "", label: t("who.own") },
          ...[...teams, ...others].map((team) => ({ value: team, label: t("share.team", { team }) })),
        ]}
      />
      {row?.is_team_deleted && (
        <Text size="sm" c="dimmed">
          {t("share.deleted", { team: row.team })}
        </Text>
      )}
    </PreviewDialog>
  );
}
