import { queryOptions } from "@tanstack/react-query";
import { alertsKey, type Alert, type AlertKind } from "@/api/alerts";
import type { Change, Schema } from "@/api/client";
import { change, etagOf, read, type Attempt } from "@/api/requests";

export type AlertDetail = Schema<"AlertDetail">;
export type Rule = Schema<"AlertRuleRow">;
export type NewRule = Schema<"NewAlertRuleRequest">;
export type RulePreviewed = Schema<"RulePreview">;
export type Silence = Schema<"SilenceRow">;
export type Channel = Schema<"AlertChannelRow">;
export type NewChannel = Schema<"NewAlertChannelRequest">;
export type ChannelChange = Schema<"PatchedAlertChannelChangeRequest">;

/** The conditions of rules, the most common first. */
export const KINDS: readonly AlertKind[] = [
  "lag",
  "time_lag",
  "drain_time",
  "anomaly",
  "dead_letters",
  "duplicate_ids",
  "group_state",
  "copies",
  "below_minimum",
  "no_candidate",
  "one_rack",
  "role_changes",
  "replication",
  "disk",
  "disk_in_a_day",
  "damage",
  "disk_stuck",
  "scrub",
  "lateness",
  "clock",
  "job_late",
  "outbox_age",
  "outbox_failed",
  "outbox_unreachable",
  "unknown",
];
export const STATES: readonly Alert["state"][] = ["pending", "firing", "resolved"];
export const SEVERITIES: readonly Rule["severity"][] = ["critical", "warning"];

/** Rules are evaluated every few seconds: an alert is on screen soon after. */
export const REFRESH_MS = 5_000;
/** Channels there can be: the form of a rule shows all. */
const CHANNELS_MAX = 100;

export function alertOptions(alert: string) {
  return queryOptions({
    queryKey: [...alertsKey, "one", alert],
    queryFn: read("/api/v1/alerts/{alert}/", { path: { alert } }),
    refetchInterval: REFRESH_MS,
  });
}

export function channelsOptions() {
  return queryOptions({
    queryKey: [...alertsKey, "all-channels"],
    queryFn: read("/api/v1/alert-channels/", { query: { limit: CHANNELS_MAX } }),
    select: ({ results }: { results: readonly Channel[] }) => results,
  });
}

/** What a rule would do; `rule` is the ID of the stored one. */
export function previewOptions(draft: NewRule, rule: string | undefined) {
  const { kind, target = "*", threshold, clear_threshold, for_seconds, clear_for_seconds, window_seconds } = draft;
  const given = { for_seconds, clear_for_seconds, window_seconds, clear_threshold: clear_threshold ?? undefined, rule };
  const query = { kind, target, threshold, ...given };
  return queryOptions({
    queryKey: [...alertsKey, "preview", query],
    queryFn: read("/api/v1/alert-rules/preview/", { query }),
  });
}

type Stored = Pick<Rule, "id" | "version">;

export function changeRule(rule: Stored, body: Partial<Omit<NewRule, "kind">>, attempt: Attempt): Promise<Change> {
  const path = { rule: rule.id };
  return change("patch", "/api/v1/alert-rules/{rule}/", attempt, { path, etag: etagOf(rule), body });
}

export function changeChannel(channel: Stored, body: ChannelChange, attempt: Attempt): Promise<Change> {
  const path = { channel: channel.id };
  return change("patch", "/api/v1/alert-channels/{channel}/", attempt, { path, etag: etagOf(channel), body });
}
