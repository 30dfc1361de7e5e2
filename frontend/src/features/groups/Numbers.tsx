import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { deadLettersOptions, type GroupName } from "@/features/groups/queries";
import type { Timelines } from "@/features/groups/timelines";
import { groupKey, lagPath, useLiveEntry, useLiveNumber, type LiveNumbers } from "@/live/useLive";
import type { ChartColour } from "@/ui/chart/types";
import { LinkTo } from "@/ui/links/LinkTo";
import { DrainTime } from "@/ui/measure/DrainTime";
import { Measured, type Format } from "@/ui/measure/Measured";
import { NumberStrip, StripNumber } from "@/ui/measure/NumberStrip";
import { useProblemWords } from "@/ui/page/problemWords";

interface Shown {
  history?: readonly (number | null)[];
  colour?: ChartColour;
  note?: ReactNode;
}

/** The group's live numbers with their last hour; what each means, on hover and focus. */
export function Numbers({ name, timelines: { lag, group, sent } }: { name: GroupName; timelines: Timelines }) {
  const { t } = useTranslation("groups");
  const number = (field: LiveNumbers["groups"], as: Format, shown: Shown = {}) => (
    <StripNumber label={t(`column.${field}`)} hint={t(`meaning.${field}`)} {...shown}>
      <Live name={name} field={field} as={as} />
    </StripNumber>
  );
  return (
    <NumberStrip>
      {number("lag", "count", { history: lag })}
      {number("time_lag_seconds", "duration", { history: group.values.time_lag_seconds, colour: "orange" })}
      {number("backlog", "count", { history: group.values.backlog })}
      {number("in_flight", "count", { history: group.values.in_flight })}
      <StripNumber label={t("column.send_rate")} hint={t("meaning.send_rate")} history={sent}>
        <LiveSendRate name={name} />
      </StripNumber>
      {number("ack_rate", "rate", { history: group.values.ack_rate, colour: "orange" })}
      <StripNumber label={t("column.drain_seconds")} hint={t("meaning.drain_seconds")}>
        <LiveDrain name={name} />
      </StripNumber>
      {number("consumers_online", "count")}
      {number("retry_lag", "count", { note: <Retried name={name} /> })}
      <StripNumber label={t("column.dead_letters")} hint={t("meaning.dead_letters")}>
        <DeadLetters name={name} />
      </StripNumber>
    </NumberStrip>
  );
}

function useNumber(name: GroupName, field: LiveNumbers["groups"]) {
  return useLiveNumber(lagPath({ ...name }), "groups", groupKey(name.subject, name.group), field);
}

function Live({ name, field, as }: { name: GroupName; field: LiveNumbers["groups"]; as: Format }) {
  return <Measured {...useNumber(name, field)} as={as} />;
}

/** How many were returned since the nodes started; nothing while that is none. */
function Retried({ name }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  const reading = useNumber(name, "retried");
  if (!reading.value) return null;
  return (
    <span data-hint={t("meaning.retried")}>
      <Measured {...reading} as="compact" /> {t("retried_note")}
    </span>
  );
}

function LiveSendRate({ name }: { name: GroupName }) {
  return <Measured {...useLiveNumber(lagPath({ ...name }), "subjects", name.subject, "send_rate")} as="rate" />;
}

function LiveDrain({ name }: { name: GroupName }) {
  return <DrainTime numbers={useLiveEntry(lagPath({ ...name }), "groups", groupKey(name.subject, name.group))} />;
}

function DeadLetters({ name }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  const { data, error } = useQuery(deadLettersOptions(name));
  const wordsOf = useProblemWords();
  return (
    <LinkTo to="/dead-letters/$subject/$group" params={{ ...name }} inherit>
      <Measured {...(error ? { value: null, reason: wordsOf(error).text } : data)} />
      <span className="sr-only"> {t("dead_letters_link")}</span>
    </LinkTo>
  );
}
