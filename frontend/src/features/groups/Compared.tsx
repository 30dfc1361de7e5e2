import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { rangeHistoryOptions, type History, type HistoryOf } from "@/api/history";
import { ComparePicker } from "@/features/groups/ComparePicker";
import { Differences } from "@/features/groups/Differences";
import { GroupCharts } from "@/features/groups/GroupCharts";
import type { GroupName } from "@/features/groups/queries";
import { dateTime } from "@/format/times";
import { NO_SERIES, type Series } from "@/live/series";
import { spansOf, type Compared as What } from "@/shared/ranges/compare";
import { heldAt } from "@/shared/ranges/merge";
import type { Range, Span } from "@/shared/ranges/range";
import { RangeNote } from "@/shared/ranges/RangeNote";
import { QueryProblem } from "@/ui/page/loaded";
import { useZone } from "@/ui/preferences";

const DRAWN = ["lag", "send_rate", "ack_rate"] as const;

/** Two spans of a group, the earlier one below the later one, and their differences. Nothing of it is live. */
export function Compared({ name, range, compared }: { name: GroupName; range: Range; compared: What }) {
  const { t } = useTranslation("ranges");
  const [now] = useState(() => Date.now());
  const spans = useMemo(() => spansOf(range, compared, now), [range, compared, now]);
  if (spans === null) {
    return (
      <>
        <ComparePicker compared={compared} />
        <Text c="dimmed">{t("compare.future")}</Text>
      </>
    );
  }
  return <Both name={name} {...spans} compared={compared} />;
}

function useSpan(of: HistoryOf, span: Span) {
  return useQuery(rangeHistoryOptions(of, 0, span));
}

function columns(data: History | undefined): Series {
  return data ? { at: data.at.map((at) => Date.parse(at) / 1000), values: data.fields } : NO_SERIES;
}

function Both({ name, later, earlier, compared }: { name: GroupName; later: Span; earlier: Span; compared: What }) {
  const { t } = useTranslation("ranges");
  const zone = useZone();
  const { subject, group } = name;
  const [ofGroup, ofSubject] = [{ subject, group }, { subject }];
  const [group1, group0] = [useSpan(ofGroup, later), useSpan(ofGroup, earlier)];
  const [sends1, sends0] = [useSpan(ofSubject, later), useSpan(ofSubject, earlier)];
  const offset = (Date.parse(later.from) - Date.parse(earlier.from)) / 1000;
  const { at, values } = useMemo(() => {
    const now = columns(group1.data);
    const [before, sends, sendsBefore] = [columns(group0.data), columns(sends1.data), columns(sends0.data)];
    const drawn = { ...now.values, send_rate: heldAt(now.at, sends, "send_rate") };
    const of = (field: string) => (field === "send_rate" ? sendsBefore : before);
    const faint = DRAWN.map((field) => [`${field}_before`, heldAt(now.at, of(field), field, offset)] as const);
    return { at: now.at, values: { ...drawn, ...Object.fromEntries(faint) } };
  }, [group1.data, group0.data, sends1.data, sends0.data, offset]);
  const queries = [group1, group0, sends1, sends0];
  const failed = queries.find(({ isError }) => isError);
  const nameOf = ({ from, to }: Span) => `${dateTime(from, zone).slice(0, 16)} – ${dateTime(to, zone).slice(0, 16)}`;
  return (
    <>
      <GroupCharts
        name={name}
        at={at}
        values={values}
        isPending={queries.some(({ isPending }) => isPending)}
        aside={<ComparePicker compared={compared} />}
        earlier={t("compare.earlier")}
        isWhole
      />
      {failed && <QueryProblem of={failed} />}
      <Differences
        names={{ earlier: nameOf(earlier), later: nameOf(later) }}
        earlier={{ ...group0.data?.figures, send_rate: sends0.data?.figures.send_rate }}
        later={{ ...group1.data?.figures, send_rate: sends1.data?.figures.send_rate }}
      />
      <RangeNote data={group0.data} lines={{}} />
    </>
  );
}
