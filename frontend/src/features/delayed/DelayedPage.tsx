import { Autocomplete, Button, Group, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { useSubjectNames } from "@/api/subjects";
import { dayWith, HOUR_MS, isDay, rangeOf, windowFrom, type Cell } from "@/features/delayed/calendar";
import { dayOf } from "@/format/times";
import classes from "@/features/delayed/HeatMap.module.css";
import { CalendarView } from "@/features/delayed/CalendarView";
import { Health } from "@/features/delayed/Health";
import { MessageDrawer } from "@/features/delayed/MessageDrawer";
import { MessageList } from "@/features/delayed/MessageList";
import { calendarOptions } from "@/features/delayed/queries";
import { LiveBadgeOf } from "@/ui/measure/LiveBadge";
import { oneProperty } from "@/shared/filters/filter";
import { PageHeader } from "@/ui/page/PageHeader";
import { useProblemWords } from "@/ui/page/problemWords";
import { useZone } from "@/ui/preferences";
import { useNowBy } from "@/ui/measure/useNow";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const BulkCancel = whenDrawn(async () => (await import("@/features/delayed/BulkCancel")).BulkCancel);

/** What waits to be delivered: when, what, and what can be done about it. */
export default function DelayedPage() {
  const { t } = useTranslation("delayed");
  const zone = useZone();
  const may = useMay();
  const [search, change] = useUrlState();
  const [isCancelling, setCancelling] = useState(false);
  const hourNow = useNowBy(HOUR_MS);
  const subject = search.subject ?? "";
  const first = isDay(search.from) ? search.from : dayOf(hourNow, zone);
  const days = useMemo(() => windowFrom(first, zone), [first, zone]);
  const day = useMemo(() => (isDay(search.day) ? dayWith(search.day, zone) : null), [search.day, zone]);
  const { from, to } = rangeOf(day ? [day] : days);
  const calendar = useQuery(calendarOptions(subject, from, to));
  // What is due soon is asked for all subjects, whatever the calendar shows.
  const soon = useQuery(calendarOptions("", ...soonRange(hourNow)));
  const counts = useCounts(calendar.data?.hours);
  const wordsOf = useProblemWords();
  const soonCounts = useCounts(soon.data?.hours);
  const missing = Object.values(soon.data?.unreachable ?? {})[0];
  const selected: Cell | null =
    search.due_from && search.due_to ? { begin: Date.parse(search.due_from), end: Date.parse(search.due_to) } : null;
  const list = useRef<HTMLDivElement>(null);
  const show = (range: Cell | null) => {
    change({
      due_from: range ? new Date(range.begin).toISOString() : undefined,
      due_to: range ? new Date(range.end).toISOString() : undefined,
      cursor: undefined,
    });
    // Where the list is below the calendar, it comes into sight.
    if (range && list.current && list.current.getBoundingClientRect().top > window.innerHeight / 2) {
      list.current.scrollIntoView({ block: "start" });
    }
  };
  return (
    <>
      <PageHeader
        title={t("title")}
        badges={<LiveBadgeOf path="/ws/nodes/" />}
        description={t("about")}
        actions={
          may("change_delayed") && (
            <Button
              variant="default"
              color="red"
              disabled={!subject}
              title={subject ? undefined : t("bulk.needs_subject")}
              onClick={() => setCancelling(true)}
            >
              {t("bulk.open")}
            </Button>
          )
        }
      />
      <Stack>
        <Health
          counts={missing === undefined ? soonCounts : null}
          reason={missing ?? (soon.error ? wordsOf(soon.error).text : null)}
        />
        <Group>
          <SubjectField
            key={subject}
            value={subject}
            onChange={(next) => change({ subject: next || undefined, cursor: undefined })}
          />
        </Group>
        <div className={classes.sides}>
          <CalendarView
            days={days}
            day={day}
            counts={counts}
            unreachable={calendar.data?.unreachable ?? {}}
            error={calendar.error}
            onRetry={() => void calendar.refetch()}
            selected={selected}
            onHour={(cell) => show(selected?.begin === cell.begin && selected.end === cell.end ? null : cell)}
            onDay={(next) => {
              const range = next === null ? undefined : dayWith(next, zone);
              change(
                {
                  day: next ?? undefined,
                  due_from: range && new Date(range.begin).toISOString(),
                  due_to: range && new Date(range.end).toISOString(),
                  cursor: undefined,
                },
                true,
              );
            }}
            onWindow={(next) => change({ from: next })}
          />
          <div ref={list} className={classes.list}>
            <MessageList subject={subject} />
          </div>
        </div>
      </Stack>
      <MessageDrawer
        messageId={search.message ?? null}
        subject={search.of ?? ""}
        onClose={() => change({ message: undefined, of: undefined })}
      />
      {isCancelling && (
        <BulkCancel
          onClose={() => setCancelling(false)}
          subject={subject}
          initial={{
            from: search.due_from ?? null,
            to: search.due_to ?? null,
            match: oneProperty(search.filter ?? ""),
          }}
        />
      )}
    </>
  );
}

/** This hour and the next. */
function soonRange(hourNow: number): [from: string, to: string] {
  return [new Date(hourNow).toISOString(), new Date(hourNow + 2 * HOUR_MS).toISOString()];
}

function useCounts(hours: readonly { hour: string; pending: number }[] | undefined) {
  return useMemo(
    () => (hours ? new Map(hours.map(({ hour, pending }) => [Date.parse(hour), pending] as const)) : null),
    [hours],
  );
}

/**
 * Of which subject, with those that are known to choose from; another one may be typed: its messages are still to come.
 */
function SubjectField({ value, onChange }: { value: string; onChange: (subject: string) => void }) {
  const { t } = useTranslation("delayed");
  const [typed, setTyped] = useState(value);
  const { names } = useSubjectNames(typed);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onChange(typed.trim());
      }}
    >
      <Autocomplete
        label={t("subject")}
        placeholder={t("all_subjects")}
        data={names}
        filter={({ options }) => options}
        value={typed}
        w={320}
        maw="100%"
        clearable
        clearButtonProps={{ "aria-label": t("all_subjects") }}
        onChange={setTyped}
        onClear={() => onChange("")}
        onOptionSubmit={onChange}
        onBlur={() => {
          if (typed.trim() !== value) onChange(typed.trim());
        }}
        spellCheck={false}
        data-filter="subject"
      />
    </form>
  );
}
