import { queryOptions } from "@tanstack/react-query";
import { api, must, queryOf, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/ui/ChangeDialog";
import type { Load } from "@/ui/table/types";

export type Alert = Schema<"AlertRow">;
export type AlertDetail = Schema<"AlertDetail">;
export type AlertKind = Schema<"AlertKind">;
export type Rule = Schema<"AlertRuleRow">;
export type NewRule = Schema<"NewAlertRuleRequest">;
export type Silence = Schema<"SilenceRow">;
export type Channel = Schema<"AlertChannelRow">;
export type NewChannel = Schema<"NewAlertChannelRequest">;
export type ChannelChange = Schema<"PatchedAlertChannelChangeRequest">;
export type ChannelTest = Schema<"ChannelTest">;

/** Rules are looked at every few seconds: an alert is on screen soon after. */
export const REFRESH_MS = 5_000;
/** Channels there can be: the form of a rule shows all. */
const CHANNELS_MAX = 100;

/** All keys begin with `alerts`: a rule's change ends alerts, a silence shows on them. */
export const alertsKey = ["alerts"] as const;

export const loadAlerts: Load<Alert> = (query, signal) =>
  must(api.GET("/api/v1/alerts/", { params: { query: queryOf<"/api/v1/alerts/">(query) }, signal }));
export const loadRules: Load<Rule> = (query, signal) =>
  must(api.GET("/api/v1/alert-rules/", { params: { query: queryOf<"/api/v1/alert-rules/">(query) }, signal }));
export const loadSilences: Load<Silence> = (query, signal) =>
  must(api.GET("/api/v1/silences/", { params: { query: queryOf<"/api/v1/silences/">(query) }, signal }));
export const loadChannels: Load<Channel> = (query, signal) =>
  must(api.GET("/api/v1/alert-channels/", { params: { query: queryOf<"/api/v1/alert-channels/">(query) }, signal }));

export function alertOptions(alert: string) {
  return queryOptions({
    queryKey: [...alertsKey, "one", alert],
    queryFn: ({ signal }) => must(api.GET("/api/v1/alerts/{alert}/", { params: { path: { alert } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

export function channelNamesOptions() {
  return queryOptions({
    queryKey: [...alertsKey, "channel-names"],
    queryFn: ({ signal }) =>
      must(api.GET("/api/v1/alert-channels/", { params: { query: { limit: CHANNELS_MAX } }, signal })),
    select: (page) => page.results.map(({ name }) => name),
  });
}

/** The ETag of a version, as the API makes it: what was read is what is changed. */
function match(version: string) {
  return { "If-Match": `"v${version}"` };
}

export function acknowledge(alert: string, { dryRun, reason }: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/alerts/{alert}/acknowledge/", {
      params: { path: { alert }, query: { dry_run: dryRun } },
      body: { reason },
    }),
  );
}

export function createRule(rule: NewRule, { dryRun, reason }: Attempt): Promise<Change> {
  return must(api.POST("/api/v1/alert-rules/", { params: { query: { dry_run: dryRun } }, body: { ...rule, reason } }));
}

export function changeRule(
  { id, version }: Pick<Rule, "id" | "version">,
  changes: Partial<Omit<NewRule, "kind">>,
  { dryRun, reason }: Attempt,
): Promise<Change> {
  return must(
    api.PATCH("/api/v1/alert-rules/{rule}/", {
      params: { path: { rule: id }, query: { dry_run: dryRun }, header: match(version) },
      body: { ...changes, reason },
    }),
  );
}

export function deleteRule({ id, version }: Rule, { dryRun }: Attempt): Promise<Change> {
  return must(
    api.DELETE("/api/v1/alert-rules/{rule}/", {
      params: { path: { rule: id }, query: { dry_run: dryRun }, header: match(version) },
    }),
  );
}

export interface NewSilence {
  rule: string;
  target: string;
  endsAt: string;
  reason: string;
}

export function createSilence({ rule, target, endsAt, reason }: NewSilence, dryRun: boolean): Promise<Change> {
  return must(
    api.POST("/api/v1/silences/", {
      params: { query: { dry_run: dryRun } },
      body: { rule, target, ends_at: endsAt, reason },
    }),
  );
}

export function endSilence({ id, version }: Silence, { dryRun }: Attempt): Promise<Change> {
  return must(
    api.DELETE("/api/v1/silences/{silence}/", {
      params: { path: { silence: id }, query: { dry_run: dryRun }, header: match(version) },
    }),
  );
}

export function createChannel(channel: NewChannel, { dryRun, reason }: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/alert-channels/", { params: { query: { dry_run: dryRun } }, body: { ...channel, reason } }),
  );
}

export function changeChannel(
  { id, version }: Channel,
  changes: ChannelChange,
  { dryRun, reason }: Attempt,
): Promise<Change> {
  return must(
    api.PATCH("/api/v1/alert-channels/{channel}/", {
      params: { path: { channel: id }, query: { dry_run: dryRun }, header: match(version) },
      body: { ...changes, reason },
    }),
  );
}

export function deleteChannel({ id, version }: Channel, { dryRun }: Attempt): Promise<Change> {
  return must(
    api.DELETE("/api/v1/alert-channels/{channel}/", {
      params: { path: { channel: id }, query: { dry_run: dryRun }, header: match(version) },
    }),
  );
}

/** Send a test notification; a dry run only asks whether it may be sent there. */
export function tryChannel(channel: string, dryRun: boolean): Promise<ChannelTest> {
  return must(
    api.POST("/api/v1/alert-channels/{channel}/test/", {
      params: { path: { channel }, query: { dry_run: dryRun } },
      body: {},
    }),
  );
}
