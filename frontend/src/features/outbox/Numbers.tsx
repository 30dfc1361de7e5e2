import { Badge, Stack, Text } from "@mantine/core";
import { useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Database } from "@/features/outbox/queries";
import { COLOURS, stateOf } from "@/features/outbox/state";
import { dateTime } from "@/format/times";
import { Instant } from "@/ui/measure/Instant";
import { Measured, type Format } from "@/ui/measure/Measured";
import { useZone } from "@/ui/preferences";
import { Sent } from "@/ui/Sent";

/** Why an error code means that a database can't be used, for those who do not see its text. */
export function useErrorWords(): (code: string) => string {
  const { t } = useTranslation("outbox");
  return (code) => t(`error.${code}`, { defaultValue: code });
}

/** Why the numbers of a database are unknown; undefined: they are known. */
function useReason(row: Database): string | undefined {
  const { t } = useTranslation("outbox");
  const words = useErrorWords();
  const zone = useZone();
  if (row.unknown === null) return undefined;
  const at = row.measured_at === null ? "" : dateTime(row.measured_at, zone);
  if (row.unknown === "failed") return t("unknown.failed", { why: words(row.error_code ?? "") });
  return t(`unknown.${row.unknown}`, { at });
}

/** When the numbers were measured, for the hint of each. */
function useAge(row: Database): string | undefined {
  const { t } = useTranslation("outbox");
  const zone = useZone();
  return row.measured_at === null ? undefined : t("measured", { at: dateTime(row.measured_at, zone) });
}

/** How many rows there are; more than the API counts are "> 100,000". */
export function Counted({ row, of }: { row: Database; of: "pending" | "failed" }) {
  const reason = useReason(row);
  const age = useAge(row);
  const isMore = row[of === "pending" ? "is_pending_exact" : "is_failed_exact"] === false;
  return (
    <span className="nowrap" data-number={of}>
      {isMore && "> "}
      <Measured value={row[of]} reason={reason} about={age} />
    </span>
  );
}

/** The age of the oldest pending row when it was measured; "none" without pending rows. */
export function Oldest({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const isNone = row.pending === 0;
  return <Number row={row} value={isNone ? null : row.oldest_seconds} as="duration" none={isNone && t("none")} />;
}

/** What this system's relay sends per second; of another relay it is unknown. */
export function Rate({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const why = row.leader === null ? t("leader.none") : t("rate.other", { leader: row.leader });
  return <Number row={row} value={row.rows_per_second} as="rate" reason={why} />;
}

function Number({
  row,
  value,
  as,
  none = false,
  reason,
}: {
  row: Database;
  value: number | null;
  as: Format;
  none?: string | false;
  /** Why it is unknown though the other numbers are known. */
  reason?: string;
}) {
  const unmeasured = useReason(row);
  const age = useAge(row);
  const why = none === false ? (unmeasured ?? reason) : age;
  return <Measured value={value} as={as} reason={why} about={age} unknown={none || undefined} />;
}

/** The relay that sends the rows of a database. */
export function Leader({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const reason = useReason(row);
  const age = useAge(row);
  if (row.leader !== null) {
    return <span data-hint={age}>{row.leader}</span>;
  }
  return <Measured value={null} reason={reason ?? t("leader.none")} unknown={reason ? undefined : t("none")} />;
}

/** Why the database can't be used, and since when. */
export function LastError({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const words = useErrorWords();
  if (row.error_code === null) return "—";
  return (
    <Stack gap={0} miw={180}>
      <Text size="sm" c="red" className="break" lineClamp={3}>
        {row.error ? <Sent text={row.error} /> : words(row.error_code)}
      </Text>
      <Text size="xs" c="dimmed">
        {t("error_since")} <Instant at={row.error_since} relative />
      </Text>
    </Stack>
  );
}

export function StateBadge({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const state = stateOf(row);
  return (
    <Badge color={COLOURS[state]} variant="light" tt="none" data-state={state} data-hint={t(`state_about.${state}`)}>
      {t(`state.${state}`)}
    </Badge>
  );
}

/** Where a database is: only administrators see it. */
export function useAddress(): (row: Database) => string {
  const { t } = useTranslation("outbox");
  return useCallback(
    ({ kind, host, port, database }) => {
      if (database === null) return t("for_administrators");
      return kind === "sqlite" ? database : `${host ?? ""}:${port ?? ""}/${database}`;
    },
    [t],
  );
}
