import { Badge, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import { explained, type Explained, type GroupNumbers, type GroupState } from "@/features/groups/state";
import { useLanguage } from "@/ui/preferences";

export const STATE_COLOURS: Record<GroupState, string> = {
  caught_up: "teal",
  draining: "blue",
  growing: "orange",
  stopped: "red",
  paused: "grape",
  unknown: "gray",
};

/** Why a group is in its state, in a sentence; unknown numbers say so. */
export function useWhy(): (numbers: GroupNumbers | undefined) => string {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  return (of) => {
    const { why, lag, seconds, rate, consumers }: Explained = explained(of);
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

/** A group's state in a word; why, on hover and focus. */
export function StateBadge({ numbers: of }: { numbers: GroupNumbers | undefined }) {
  const { t } = useTranslation("groups");
  const why = useWhy();
  const { state } = explained(of);
  return (
    <Tooltip label={why(of)} multiline maw={360}>
      <Badge color={STATE_COLOURS[state]} variant="light" tabIndex={0} data-state={state}>
        {t(`state.${state}`)}
      </Badge>
    </Tooltip>
  );
}
