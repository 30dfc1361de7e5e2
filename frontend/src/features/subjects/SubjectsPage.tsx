import { Box, Button, Group, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { change, list } from "@/api/requests";
import { teamNamesOptions } from "@/api/teams";
import { BulkActions } from "@/features/subjects/BulkActions";
import { useColumns } from "@/features/subjects/columns";
import { FirstMessage } from "@/features/subjects/FirstMessage";
import { subjectsKey, type Subject } from "@/features/subjects/queries";
import { SubjectFields } from "@/features/subjects/SubjectFields";
import { useFavourites } from "@/features/subjects/useFavourites";
import { changesOf, EMPTY, problemsOf } from "@/features/subjects/values";
import { lagPath } from "@/live/useLive";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { useUrlState } from "@/ui/links/urlState";
import { CreateButton } from "@/ui/menu/buttons";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { LiveBadgeOf } from "@/ui/measure/LiveBadge";
import { PageHeader } from "@/ui/page/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import { choice } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

const SubjectTree = whenDrawn(async () => (await import("@/features/subjects/tree/SubjectTree")).SubjectTree);

/** The address's `view`: subjects by the parts of their names. */
const TREE = "tree";
const nameOf = (row: Subject) => row.name;
const isForeign = (row: Subject) => !row.may_change;

export default function SubjectsPage() {
  const { t } = useTranslation("subjects");
  const may = useMay();
  const columns = useColumns(useFavourites());
  const filters = useFilters();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isCreating, { open, close }] = useDisclosure();
  const selection = useMemo(() => ({ selected, onChange: setSelected, isDisabled: isForeign }), [selected]);
  const mayChange = may("change_subjects");
  const [search, change] = useUrlState();
  const isTree = search.view === TREE;
  const view = (
    <Button size="xs" variant="default" onClick={() => change({ view: isTree ? undefined : TREE }, true)}>
      {t(isTree ? "tree.list" : "tree.show")}
    </Button>
  );
  const empty = (
    <FirstMessage subject="order.paid" title={t("empty.title")}>
      {t("empty.text")}
    </FirstMessage>
  );
  return (
    <>
      <PageHeader
        title={t("title")}
        badges={<LiveBadgeOf path={lagPath()} />}
        actions={mayChange && <CreateButton onClick={open}>{t("create.title")}</CreateButton>}
      />
      {mayChange && selected.size > 0 && <BulkActions selected={selected} onDone={() => setSelected(new Set())} />}
      {isTree ? (
        <>
          <Group justify="space-between" wrap="nowrap" mb="xs">
            <Text size="sm" c="dimmed" visibleFrom="sm">
              {t("tree.about")}
            </Text>
            <Box flex="none" ml="auto">
              {view}
            </Box>
          </Group>
          <SubjectTree empty={empty} />
        </>
      ) : (
        <DataTable
          label={t("title")}
          queryKey={subjectsKey}
          load={list("/api/v1/subjects/")}
          columns={columns}
          filters={filters}
          rowKey={nameOf}
          ordering="name"
          download="/api/v1/subjects/"
          selection={mayChange ? selection : undefined}
          empty={empty}
          actions={view}
        />
      )}
      <CreateSubject opened={isCreating} onClose={close} />
    </>
  );
}

function useFilters(): readonly Filter[] {
  const { t } = useTranslation("subjects");
  const { data: teams } = useQuery(teamNamesOptions());
  return useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      choice("owner", t("filter.owner"), teams ?? [], (team) => team),
      choice("is_owned", t("filter.is_owned"), { true: t("filter.owned"), false: t("filter.not_owned") }),
      choice("is_favourite", t("column.favourite"), { true: t("filter.favourite") }),
      choice("is_archived", t("filter.is_archived"), { false: t("filter.not_archived"), true: t("filter.archived") }),
    ],
    [t, teams],
  );
}

/** Make a subject before its first message: with an owner, limits and retention from the start. */
function CreateSubject({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("subjects");
  const navigate = useNavigate();
  const [form, setForm] = useState(EMPTY);
  const close = () => {
    setForm(EMPTY);
    onClose();
  };
  return (
    <PreviewDialog
      opened={opened}
      onClose={close}
      title={t("create.title")}
      actionLabel={t("create.action")}
      doneMessage={t("create.done", { name: form.name })}
      isReady={Object.keys(problemsOf(form)).length === 0}
      inputs={JSON.stringify(form)}
      run={(attempt) =>
        change("post", "/api/v1/subjects/", attempt, { body: { name: form.name, ...changesOf(EMPTY, form) } })
      }
      refreshes={[subjectsKey]}
      onDone={({ target }) => void navigate({ to: "/subjects/$subject", params: { subject: target } })}
    >
      <SubjectFields form={form} onChange={setForm} isNew />
    </PreviewDialog>
  );
}
