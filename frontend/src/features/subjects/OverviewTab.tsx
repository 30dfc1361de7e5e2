import "@/features/subjects/overview.css";
import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { Retention } from "@/features/subjects/columns";
import { FirstMessage } from "@/features/subjects/FirstMessage";
import { LiveDrainTime, LiveGroupNumber } from "@/features/subjects/LiveCells";
import { subjectOptions } from "@/features/subjects/queries";
import { SendRates } from "@/features/subjects/SendRates";
import type { Section } from "@/live/applyDelta";
import type { LiveView } from "@/live/feed";
import { lagPath, measured, useLiveEntry, useLiveText } from "@/live/useLive";
import { useTimeline } from "@/live/useTimeline";
import { Loading } from "@/ui/page/loaded";
import { AlertsOf, alertsOfOptions } from "@/shared/AlertsOf";
import { PRESET_FIRST } from "@/shared/ranges/range";
import { useRange } from "@/shared/ranges/useRange";
import { RecentEvents } from "@/shared/RecentEvents";
import { shellWord } from "@/shared/clientLines";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { subjectParts } from "@/ui/links/subjectParts";
import { GroupLink } from "@/ui/links/links";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { NumberStrip, StripNumber } from "@/ui/measure/NumberStrip";
import { Part } from "@/ui/page/Part";
import { Teach } from "@/shared/Teach";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

const TILES = [
  ["send_rate", "rate"],
  ["send_bytes_rate", "bytes"],
  ["stored_messages", "compact"],
  ["sent_messages", "compact"],
] as const;
const FIELDS = ["send_rate", "send_bytes_rate"] as const;

const LongSendRates = whenDrawn(
  async () => (await import("@/features/subjects/LongSendRates")).LongSendRates,
  ["ranges"],
);

const parts = subjectParts.filter(({ place }) => place === "overview");

/** A subject at a glance: what is wrong, what is sent and stored, who sends, who consumes, what came last. */
export default function OverviewTab({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const may = useMay();
  const { data } = useQuery(subjectOptions(subject));
  // They stand above the rest, which would be moved by them.
  const alerts = useQuery(alertsOfOptions({ subject }));
  const entry = useLiveEntry(lagPath({ subject }), "subjects", subject);
  const row = data?.data;
  if (row?.broker_groups.length === 0 || entry?.sent_messages === 0) {
    return (
      <FirstMessage subject={subject} title={t("first.title")}>
        {t("first.text")}
      </FirstMessage>
    );
  }
  if (alerts.isPending) return <Loading />;
  return (
    <Stack gap="md">
      <AlertsOf framed subject={subject} />
      <Numbers subject={subject} retention={row?.retention_hours} />
      <div className="subject-overview">
        <Stack gap="md" miw={0}>
          <Sends subject={subject} />
          <Part title={t("behind.title")}>
            <FurthestBehind subject={subject} />
          </Part>
          <RecentEvents subject={subject} />
        </Stack>
        <Stack gap="md" miw={0}>
          {parts
            .filter(({ right }) => !right || may(right, row?.owner ?? null))
            .map(({ id, label, Shown }) => (
              <Part key={id} title={t(label)}>
                <Suspense fallback={<Skeleton height={120} />}>
                  <Shown subject={subject} />
                </Suspense>
              </Part>
            ))}
        </Stack>
      </div>
    </Stack>
  );
}

/** The subject's numbers, those with a history with their last hour. */
function Numbers({ subject, retention }: { subject: string; retention: number | null | undefined }) {
  const { t } = useTranslation("subjects");
  const entry = useLiveEntry(lagPath({ subject }), "subjects", subject);
  const { values } = useSendRates(subject);
  return (
    <NumberStrip>
      {TILES.map(([field, as]) => (
        <StripNumber key={field} label={t(`tile.${field}`)} hint={t(`tile.${field}_hint`)} history={values[field]}>
          <Measured {...measured(entry, field)} as={as} />
        </StripNumber>
      ))}
      <StripNumber label={t("tile.retention")} hint={t("tile.retention_hint")}>
        <Retention hours={retention} />
      </StripNumber>
    </NumberStrip>
  );
}

function useSendRates(subject: string) {
  const of = useMemo(() => ({ subject }), [subject]);
  return useTimeline(of, { path: lagPath({ subject }), section: "subjects", key: subject }, FIELDS);
}

function Sends({ subject }: { subject: string }) {
  const [range] = useRange();
  const hour = useSendRates(subject);
  const lastHour = <SendRates subject={subject} {...hour} />;
  if (range.preset === PRESET_FIRST) return lastHour;
  return <LongSendRates subject={subject} range={range} hour={hour} waiting={lastHour} />;
}

const SHOWN = 6;
const NUMBERS = [
  { field: "lag", as: "compact" },
  { field: "time_lag_seconds", as: "duration" },
  { field: "ack_rate", as: "rate" },
  { field: "consumers_online", as: "count" },
] as const;

/** Groups by lag, the largest first; before all, those that could not be measured, because their lag is unknown. */
function byLag(groups: Section): readonly { group: string; lag: number }[] {
  return Object.values(groups)
    .map((entry) => ({
      group: typeof entry.group === "string" ? entry.group : "",
      lag: typeof entry.lag === "number" ? entry.lag : Infinity,
    }))
    .sort((one, other) => other.lag - one.lag || one.group.localeCompare(other.group));
}

/** How many groups there are, and the first of them by lag, each in a line; null while nothing is known. */
function furthestBehind({ at, state }: LiveView): string | null {
  if (at === null) return null;
  const groups = byLag(state.groups ?? {});
  return [groups.length, ...groups.slice(0, SHOWN).map(({ group }) => group)].join("\n");
}

/** The consumer groups of a subject that are furthest behind, live. */
function FurthestBehind({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const found = useLiveText(lagPath({ subject }), furthestBehind);
  if (found === null) return <Text c="dimmed">{t("common:live.nothing_yet")}</Text>;
  const [total, ...groups] = found.split("\n");
  if (groups.length === 0) {
    return (
      <Teach title={t("groups.empty_title")} commands={[`qmq consume ${shellWord(subject)} my-group`]}>
        {t("groups.empty_text")}
      </Teach>
    );
  }
  return (
    <>
      <PlainTable
        label={t("behind.title")}
        minWidth={560}
        highlightOnHover
        columns={defineColumns<{ group: string }>(
          (id) => t(`groups.${id}`),
          (column) => [
            column("name", ({ group }) => <GroupLink subject={subject} group={group} />),
            ...NUMBERS.map(({ field, as }) =>
              column(field, { align: "right" }, ({ group }) => (
                <LiveGroupNumber subject={subject} group={group} field={field} as={as} />
              )),
            ),
            column("drain_seconds", { align: "right" }, ({ group }) => (
              <LiveDrainTime subject={subject} group={group} />
            )),
          ],
        )}
        rows={groups.map((group) => ({ group }))}
        rowKey={({ group }) => group}
      />
      {Number(total) > SHOWN && (
        <LinkTo to="/subjects/$subject" params={{ subject }} search={{ tab: "groups" }} size="sm">
          {t("behind.all", { count: Number(total) })}
        </LinkTo>
      )}
    </>
  );
}
