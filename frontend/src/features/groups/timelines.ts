import { useMemo } from "react";
import type { GroupName } from "@/features/groups/queries";
import { fieldAt, sumOf } from "@/live/timeline";
import { groupKey, lagPath } from "@/live/useLive";
import { useTimeline } from "@/live/useTimeline";

const GROUP_FIELDS = ["backlog", "in_flight", "time_lag_seconds", "pull_rate", "ack_rate"] as const;
const SUBJECT_FIELDS = ["send_rate"] as const;

/** The last hour of a group, continued live, for its charts and its numbers; all at the instants of `group`. */
export function useTimelines({ subject, group }: GroupName) {
  const path = lagPath({ subject, group });
  const ofGroup = useMemo(() => ({ subject, group }), [subject, group]);
  const ofSubject = useMemo(() => ({ subject }), [subject]);
  const numbers = useTimeline(ofGroup, { path, section: "groups", key: groupKey(subject, group) }, GROUP_FIELDS);
  const sends = useTimeline(ofSubject, { path, section: "subjects", key: subject }, SUBJECT_FIELDS);
  const lag = useMemo(() => sumOf(numbers, "backlog", "in_flight"), [numbers]);
  const sent = useMemo(() => fieldAt(numbers.at, sends, "send_rate"), [numbers, sends]);
  return { group: numbers, lag, sent };
}

export type Timelines = ReturnType<typeof useTimelines>;
