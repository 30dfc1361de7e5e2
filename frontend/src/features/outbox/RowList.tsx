import { Badge, Button, Group, SegmentedControl, Text } from "@mantine/core";
import { useCallback, useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import {
  canChange,
  loadRows,
  outboxKey,
  SELECTED_MAX,
  VIEWS,
  type Action,
  type Chosen,
  type Database,
  type OutboxRow,
  type View,
} from "@/features/outbox/queries";
import { RowDrawer } from "@/features/outbox/RowDrawer";
import { bytes } from "@/format/numbers";
import { SubjectLink } from "@/ui/links/links";
import { useUrlState } from "@/ui/links/urlState";
import { Instant } from "@/ui/measure/Instant";
import { Measured } from "@/ui/measure/Measured";
import { TextButton } from "@/ui/menu/buttons";
import { MessageLine } from "@/ui/message/MessageLine";
import { Part } from "@/ui/page/Part";
import { useLanguage } from "@/ui/preferences";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column, ListQuery } from "@/ui/table/types";
import { Sent } from "@/ui/Sent";

interface Props {
  row: Database;
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  onDo: (action: Action, chosen: Chosen | "all") => void;
}

const NOTHING: ReadonlySet<string> = new Set();
const isView = (text: string | undefined): text is View => text !== undefined && Object.hasOwn(VIEWS, text);

/** The rows of a database, read from it when they are asked for: what fails concerns this part of the page only. */
export function RowList({ row: database, selected, onSelect, onDo }: Props) {
  const { t } = useTranslation("outbox");
  const [search, change] = useUrlState();
  const view: View = isView(search.show) ? search.show : "all";
  const { id, may_resend: mayResend, may_discard: mayDiscard } = database;
  const open = useCallback((row: string) => change({ row }, true), [change]);
  const columns = useColumns(open);
  const load = useCallback((query: ListQuery, signal: AbortSignal) => loadRows(id, view, query, signal), [id, view]);
  const statuses = new URLSearchParams(VIEWS[view].map((status) => ["status", status]));
  const isTooMany = selected.size > SELECTED_MAX;
  const some: Chosen = { ids: [...selected] };
  const button = (action: Action, text: string, chosen: Chosen | "all") => (
    <Button
      variant="default"
      color={action === "discard" ? "red" : undefined}
      disabled={chosen !== "all" && isTooMany}
      onClick={() => onDo(action, chosen)}
      data-action={`${action}-${chosen === "all" ? "all" : "selected"}`}
    >
      {text}
    </Button>
  );
  return (
    <Part title={t("rows.title")} note={t("rows.note")}>
      <DataTable
        label={t("rows.title")}
        queryKey={[...outboxKey, "rows", id, view]}
        load={load}
        columns={columns}
        rowKey={(row) => row.id}
        download={`/api/v1/outbox/databases/${encodeURIComponent(id)}/rows/?${statuses.toString()}`}
        // Reading is limited and noted in the audit log.
        refetchOnFocus={false}
        selection={
          mayResend || mayDiscard ? { selected, onChange: onSelect, isDisabled: (row) => !canChange(row) } : undefined
        }
        lead={
          <SegmentedControl
            size="xs"
            aria-label={t("rows.show")}
            value={view}
            onChange={(next) => {
              onSelect(NOTHING);
              change({ show: next === "all" ? undefined : next, cursor: undefined });
            }}
            data={(["all", "failed", "unsent"] as const).map((value) => ({ value, label: t(`rows.view.${value}`) }))}
          />
        }
        actions={
          selected.size > 0 ? (
            <Group gap="xs" role="toolbar" aria-label={t("rows.selected_actions")}>
              <Text size="sm" c={isTooMany ? "orange" : undefined}>
                {isTooMany ? t("rows.too_many", { max: SELECTED_MAX }) : t("rows.selected", { count: selected.size })}
              </Text>
              {mayResend && button("resend", t("resend.action"), some)}
              {mayDiscard && button("discard", t("discard.action"), some)}
            </Group>
          ) : (
            <>
              {mayResend && button("resend", t("resend.all"), "all")}
              {mayDiscard && button("discard", t("discard.all"), "all")}
            </>
          )
        }
        empty={
          <Text c="dimmed" p="md" data-empty={view}>
            {t(`rows.empty.${view}`)}
          </Text>
        }
      />
      <RowDrawer database={database} onDo={(action, row) => onDo(action, { ids: [row] })} />
    </Part>
  );
}

const COLOURS = { pending: "blue", failed: "yellow", invalid: "red", refused: "red" } as const;

export function StatusBadge({ row: { status } }: { row: OutboxRow }) {
  const { t } = useTranslation("outbox");
  return (
    <Badge
      color={COLOURS[status]}
      variant="light"
      tt="none"
      data-status={status}
      data-hint={t(`status_about.${status}`)}
    >
      {t(`status.${status}`)}
    </Badge>
  );
}

function useColumns(open: (row: string) => void): readonly Column<OutboxRow>[] {
  const { t } = useTranslation("outbox");
  const language = useLanguage();
  return useMemo(
    () =>
      defineColumns<OutboxRow>(headers(t), (column) => [
        column("id", { align: "right", isFixed: true }, ({ id }) => (
          <TextButton inherit className="nowrap" aria-label={t("rows.open", { id })} onClick={() => open(id)}>
            {id}
          </TextButton>
        )),
        column("status", { card: "state" }, (row) => <StatusBadge row={row} />),
        column("subject", { card: "fact" }, ({ subject }) =>
          subject === null ? "—" : <SubjectLink subject={subject} className="nowrap" />,
        ),
        column("message_id", ({ message_id: id }) => <span className="nowrap">{id ?? "—"}</span>),
        column("created_at", { card: "fact" }, (row) => <Instant at={row.created_at} relative />),
        column("failed_attempts", { card: "fact", align: "right" }, (row) => <Measured value={row.failed_attempts} />),
        column("last_error", { card: "line" }, (row) => <Why row={row} />),
        column("content", (row) => <Content row={row} />),
        column("due_at", (row) => (row.due_at === null ? "—" : <Instant at={row.due_at} relative />)),
        column("size", { align: "right", isHiddenAtFirst: true }, (row) => (
          <span className="nowrap">{bytes(row.size, language)}</span>
        )),
      ]),
    [t, language, open],
  );
}

/** Why a row was not sent. */
function Why({ row }: { row: OutboxRow }) {
  const why = row.problem ?? row.last_error;
  return why === null ? (
    "—"
  ) : (
    <Text span size="sm" c="red" className="break" lineClamp={2} miw={160}>
      <Sent text={why} />
    </Text>
  );
}

function Content({ row }: { row: OutboxRow }) {
  const { t } = useTranslation("outbox");
  const dimmed = row.masked ? t("rows.masked") : row.withheld;
  if (dimmed !== null) {
    return (
      <Text span inherit c="dimmed">
        <Sent text={dimmed} />
      </Text>
    );
  }
  if (row.properties !== null) return <MessageLine properties={row.properties} />;
  return <span className="message-line">{row.content}</span>;
}
