import { Alert, Button, Code, Group, Text, Title } from "@mantine/core";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { isOpen, loadDelayed, STATES, type Delayed, delayedKey } from "@/features/delayed/queries";
import { SELECTED_MAX, SelectedChange } from "@/features/delayed/SelectedChange";
import { keyOf, targetOf } from "@/features/delayed/target";
import { Overdue, StateBadge } from "@/features/delayed/words";
import { Instant } from "@/ui/measure/Instant";
import { Measured } from "@/ui/measure/Measured";
import { TextButton } from "@/ui/menu/buttons";
import { SubjectLink } from "@/ui/links/links";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Column, Filter, Load } from "@/ui/table/types";
import { messageFilter } from "@/shared/filters/messageFilter";
import { Teach } from "@/shared/Teach";
import { useUrlState } from "@/ui/links/urlState";

const FIRST_MESSAGE = ["qmq produce order.remind -p order=17 --delay 3d"];

const NOTHING: ReadonlySet<string> = new Set();

/** Messages in the order of their due times, of one subject or of all; some can be chosen and changed together. */
export function MessageList({ subject }: { subject: string }) {
  const { t } = useTranslation("delayed");
  const [search, change] = useUrlState();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(NOTHING);
  const [changing, setChanging] = useState<"cancel" | "deliver" | null>(null);
  const open = useCallback((row: Delayed) => change({ message: row.message_id, of: row.subject }, true), [change]);
  const columns = useColumns(open);
  const filters = useMemo<Filter[]>(
    () => [
      choice("state", t("column.state"), STATES, (state) => t(`state.${state}`)),
      messageFilter(t("common:filter.label"), subject),
      { kind: "instant", name: "due_from", label: t("filter.due_from"), direction: "future" },
      { kind: "instant", name: "due_to", label: t("filter.due_to"), direction: "future" },
    ],
    [t, subject],
  );
  const load = useCallback<Load<Delayed>>((query, signal) => loadDelayed({ ...query, subject }, signal), [subject]);
  const isIgnored = Boolean(search.filter) && subject === "";
  return (
    <div>
      <Title order={2} size="h4" mb="xs">
        {subject ? t("list.of", { subject }) : t("list.all")}
      </Title>
      {isIgnored && (
        <Alert color="yellow" mb="xs" role="status">
          {t("filter.needs_subject")}
        </Alert>
      )}
      <DataTable
        label={t("list.all")}
        queryKey={[...delayedKey, "list", subject]}
        load={load}
        // Reading is limited and noted in the audit log.
        refetchOnFocus={false}
        columns={columns}
        filters={filters}
        rowKey={keyOf}
        download={`/api/v1/delayed-messages/${subject && `?${new URLSearchParams({ subject }).toString()}`}`}
        selection={{
          selected: chosen,
          onChange: setChosen,
          isDisabled: (row) => !row.may_change || !isOpen(row),
        }}
        actions={
          chosen.size > 0 && (
            <Group gap="xs">
              {chosen.size > SELECTED_MAX && (
                <Text size="sm" c="orange">
                  {t("selected.too_many", { max: SELECTED_MAX })}
                </Text>
              )}
              {(["deliver", "cancel"] as const).map((operation) => (
                <Button
                  key={operation}
                  variant={operation === "cancel" ? "light" : "default"}
                  color={operation === "cancel" ? "red" : undefined}
                  disabled={chosen.size > SELECTED_MAX}
                  onClick={() => setChanging(operation)}
                  data-action={`${operation}-selected`}
                >
                  {t(`selected.${operation}`, { count: chosen.size })}
                </Button>
              ))}
              <Button variant="subtle" onClick={() => setChosen(NOTHING)}>
                {t("selected.clear")}
              </Button>
            </Group>
          )
        }
        empty={
          <Teach title={t("empty.title")} commands={FIRST_MESSAGE}>
            {t("empty.text")}
          </Teach>
        }
      />
      {changing && (
        <SelectedChange
          operation={changing}
          targets={[...chosen].map(targetOf)}
          onStarted={() => setChosen(NOTHING)}
          onClose={() => setChanging(null)}
        />
      )}
    </div>
  );
}

function useColumns(open: (row: Delayed) => void): Column<Delayed>[] {
  const { t } = useTranslation("delayed");
  return useMemo(
    () =>
      defineColumns<Delayed>(headers(t), (column) => [
        column("due_at", { isFixed: true }, (row) => (
          <TextButton className="nowrap" onClick={() => open(row)}>
            <Instant at={row.due_at} />
            <span className="sr-only"> {row.message_id}</span>
          </TextButton>
        )),
        column("in", { card: "fact" }, (row) => <Instant at={row.due_at} relative />),
        column("state", { card: "state" }, (row) => <StateBadge state={row.state} />),
        column("overdue", { align: "right" }, (row) => <Overdue row={row} />),
        column("subject", { card: "line" }, (row) => <SubjectLink subject={row.subject} className="nowrap" />),
        column("properties", { card: "line" }, (row) => <Properties row={row} />),
        column("message_id", { card: "line" }, (row) => <span className="nowrap">{row.message_id}</span>),
        column("tags", { isHiddenAtFirst: true }, (row) => row.tags.join(", ") || "—"),
        column("size", { align: "right" }, (row) => (
          <span className="nowrap">
            <Measured value={row.size} as="bytes" />
          </span>
        )),
        column("created_at", { isHiddenAtFirst: true }, (row) => <Instant at={row.created_at} />),
        column("delay_group", { isHiddenAtFirst: true }, (row) => row.delay_group),
      ]),
    [t, open],
  );
}

function Properties({ row: { masked, properties } }: { row: Delayed }) {
  const { t } = useTranslation("delayed");
  if (masked) {
    return (
      <Text span inherit c="dimmed">
        {t("masked")}
      </Text>
    );
  }
  // The producer's own first: what the client adds says little here.
  const isAdded = ([name]: [string, string]) => Number(name.startsWith("qmq_"));
  const text = Object.entries(properties ?? {})
    .sort((a, b) => isAdded(a) - isAdded(b))
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
  return (
    <Text span inherit lineClamp={1} className="break" title={text} maw={420}>
      {text ? <Code>{text}</Code> : "—"}
    </Text>
  );
}
