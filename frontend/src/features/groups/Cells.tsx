import { Badge } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { GroupLag } from "@/features/groups/queries";
import { explained, type GroupState } from "@/features/groups/state";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import type { Entry } from "@/live/applyDelta";
import { groupKey, lagPath, useLiveEntry, useLiveNumber, type LiveNumbers } from "@/live/useLive";
import { DrainTime } from "@/ui/measure/DrainTime";
import { Measured, type Format } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";

/**
 * A row's live numbers; until the feed has them, those that the list came with. Only cells whose numbers changed are
 * drawn again.
 */
function useNumbers(row: GroupLag): Entry {
  return useLiveEntry(lagPath(), "groups", groupKey(row.subject, row.group)) ?? row;
}

export function LiveNumber({ row, field, as }: { row: GroupLag; field: LiveNumbers["groups"]; as: Format }) {
  const reading = useLiveNumber(lagPath(), "groups", groupKey(row.subject, row.group), field, row);
  return <Measured {...reading} as={as} />;
}

export function LiveState({ row }: { row: GroupLag }) {
  return <StateBadge numbers={useNumbers(row)} />;
}

export function LiveDrainTime({ row }: { row: GroupLag }) {
  return <DrainTime numbers={useNumbers(row)} />;
}

export const STATE_COLOURS: Record<GroupState, string> = {
  caught_up: "teal",
  idle: "gray",
  draining: "blue",
  growing: "orange",
  stopped: "red",
  paused: "grape",
  unknown: "gray",
};

/** Why a group is in its state, in a sentence; unknown numbers say so. */
function useWhy(): (numbers: Entry | undefined) => string {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  return (of) => {
    const { why, lag, seconds, rate, consumers } = explained(of);
    const unknown = t("why.not_measured");
    const reason = typeof of?.reason === "string" ? of.reason : unknown;
    return t(`why.${why}`, {
      reason: reason,
      lag: lag === null ? unknown : numbers.count(lag, language),
      time: seconds === null ? unknown : times.duration(seconds, language),
      rate: rate === null ? unknown : numbers.rate(rate, language),
      count: consumers ?? 0,
    });
  };
}

/**
 * A group's state in a word; why, on hover and focus. The reason changes with each number, the badge with the state.
 */
export function StateBadge({ numbers: of }: { numbers: Entry | undefined }) {
  const why = useWhy();
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the reason is shown on focus
    <span data-hint={why(of)} tabIndex={0}>
      <StateWord state={explained(of).state} />
    </span>
  );
}

const StateWord = memo(function StateWord({ state }: { state: GroupState }) {
  const { t } = useTranslation("groups");
  return (
    <Badge color={STATE_COLOURS[state]} variant="light" data-state={state}>
      {t(`state.${state}`)}
    </Badge>
  );
});
