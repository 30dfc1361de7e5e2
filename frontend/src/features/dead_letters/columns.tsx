import { Badge, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { DeadLetter } from "@/features/dead_letters/queries";
import { bytes, sequence } from "@/format/numbers";
import { dateTime } from "@/format/times";
import { Instant } from "@/ui/measure/Instant";
import { useZone } from "@/ui/preferences";
import { TextButton } from "@/ui/menu/buttons";
import { placeKey } from "@/ui/message/place";
import { MessageLine } from "@/ui/message/MessageLine";
import { useLanguage } from "@/ui/preferences";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column } from "@/ui/table/types";

const COLOURS: Readonly<Record<string, string>> = {
  open: "red",
  replaying: "blue",
  unknown: "yellow",
  replayed: "teal",
  deleted: "gray",
};

/** What a line of dead letters shows; opening one is up to the list. */
export function useDeadLetterColumns(open: (key: string) => void): readonly Column<DeadLetter>[] {
  const { t } = useTranslation("dead_letters");
  const language = useLanguage();
  return useMemo(
    () =>
      defineColumns<DeadLetter>(headers(t), (column) => [
        column("sequence", { align: "right", isFixed: true }, (row) => (
          <TextButton
            inherit
            className="nowrap"
            aria-label={t("open", { place: placeKey(row) })}
            onClick={() => open(placeKey(row))}
          >
            {sequence(row.sequence)}
          </TextButton>
        )),
        column("broker_group", { card: "fact" }, (row) => row.broker_group),
        column("state", { card: "state" }, (row) => <Decided letter={row} />),
        column("stored_at", { card: "fact", header: t("column.given_up") }, (row) => (
          <Instant at={row.stored_at} relative />
        )),
        column("cause", { card: "fact" }, (row) => <Cause letter={row} />),
        column("attempts", (row) => <Failed letter={row} />),
        column("message_id", (row) => <span className="nowrap">{row.message_id ?? "—"}</span>),
        column("says", { card: "line" }, (row) =>
          row.masked ? (
            <Text span inherit c="dimmed">
              {t("masked")}
            </Text>
          ) : (
            <MessageLine properties={row.properties ?? {}} />
          ),
        ),
        column("size", { align: "right", isHiddenAtFirst: true }, (row) => (
          <span className="nowrap">{bytes(row.size, language)}</span>
        )),
      ]),
    [t, language, open],
  );
}

/** Why the last attempt failed, as its consumer recorded it. */
function Cause({ letter }: { letter: DeadLetter }) {
  const { t } = useTranslation("dead_letters");
  if (letter.withheld !== null) {
    return (
      <Badge color="red" variant="light" tt="none" title={letter.withheld}>
        {t("withheld")}
      </Badge>
    );
  }
  return letter.cause === null ? (
    <Text span inherit c="dimmed">
      {t("cause.none")}
    </Text>
  ) : (
    <span className="nowrap">{letter.cause}</span>
  );
}

/** How many attempts failed. */
function Failed({ letter }: { letter: DeadLetter }) {
  const { t } = useTranslation("dead_letters");
  if (letter.withheld !== null) return null;
  const { attempts, attempts_max } = letter;
  return (
    <span className="nowrap">
      {attempts === null
        ? t("why.unknown")
        : attempts_max === null
          ? t("why.failed", { count: attempts })
          : t("why.failed_of", { attempts, max: attempts_max })}
      {letter.original_message_id !== null && ` · ${t("why.replay")}`}
    </span>
  );
}

/** What was decided about a dead letter, by which user and when. */
export function Decided({ letter }: { letter: DeadLetter }) {
  const { t } = useTranslation("dead_letters");
  const state = letter.decision?.state ?? "open";
  const zone = useZone();
  const { by, at, replays } = letter.decision ?? {};
  const hint = [
    by !== undefined && at !== undefined && `${t("decided", { by })}, ${dateTime(at, zone)}`,
    replays !== undefined && replays > 1 && t("replays", { count: replays }),
  ].filter(Boolean);
  return (
    <Badge
      color={COLOURS[state] ?? "gray"}
      variant="light"
      tt="none"
      data-state={state}
      data-hint={hint.join(" · ") || undefined}
    >
      {t(`state.${state}`)}
    </Badge>
  );
}
