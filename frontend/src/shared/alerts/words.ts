import type { TFunction } from "i18next";
import type { AlertKind } from "@/api/alerts";
import { count, percent, rate } from "@/format/numbers";
import { duration } from "@/format/times";

/**
 * The states of a broker group as rules count them (docs/alerts.md): above 0 is anything but read_write, above 1
 * offline.
 */
const GROUP_STATES = ["read_write", "read_only", "offline"] as const;

/** Kinds whose value is one of a few words, so that their threshold is a choice and no number. */
export function isWord(kind: AlertKind): boolean {
  return [
    "group_state",
    "anomaly",
    "unknown",
    "no_candidate",
    "one_rack",
    "replication",
    "outbox_unreachable",
  ].includes(kind);
}

/** A rule's number in the unit of its kind: 12,000 · 15m · 85% · 3.2 intervals · offline. */
export function valueText(kind: AlertKind, value: number, language: string, t: TFunction<"alerts">): string {
  switch (kind) {
    case "lag":
    case "dead_letters":
    case "duplicate_ids":
    case "damage":
    case "copies":
    case "below_minimum":
    case "role_changes":
    case "outbox_failed":
      return count(value, language);
    case "time_lag":
    case "drain_time":
    case "lateness":
    case "clock":
    case "disk_stuck":
    case "scrub":
    case "outbox_age":
      return duration(value, language);
    case "disk":
    case "disk_in_a_day":
      return percent(value / 100, language);
    case "job_late":
      return t("value.intervals", { count: value, value: rate(value, language) });
    case "group_state":
      return t(`value.${GROUP_STATES[Math.min(Math.max(Math.ceil(value), 0), 2)] ?? "offline"}`);
    case "anomaly":
      return t(value > 0 ? "value.unusual" : "value.usual");
    case "no_candidate":
      return t(value > 0 ? "value.no_candidate" : "value.has_candidate");
    case "one_rack":
      return t(value > 0 ? "value.one_rack" : "value.several_racks");
    case "replication":
      return t(value > 0 ? "value.replication_alarm" : "value.no_replication_alarm");
    case "outbox_unreachable":
      return t(value > 0 ? "value.outbox_unusable" : "value.outbox_usable");
    case "unknown":
      return t(value > 0 ? "value.unmeasured" : "value.measured");
  }
}

/** What makes a rule of this kind and threshold fire. */
export function conditionText(kind: AlertKind, threshold: number, language: string, t: TFunction<"alerts">): string {
  if (kind === "unknown") return t("value.unmeasured");
  if (kind === "anomaly") return t("value.unusual");
  if (kind === "no_candidate") return t("value.no_candidate");
  if (kind === "one_rack") return t("value.one_rack");
  if (kind === "replication") return t("value.replication_alarm");
  if (kind === "outbox_unreachable") return t("value.outbox_unusable");
  if (kind === "group_state") return t(threshold < 1 ? "value.not_writable" : "value.offline");
  return t("above", { value: valueText(kind, threshold, language, t) });
}

/** And what ends its alerts. */
export function clearText(kind: AlertKind, clearThreshold: number, language: string, t: TFunction<"alerts">): string {
  if (kind === "unknown") return t("value.measured");
  if (kind === "anomaly") return t("value.usual");
  if (kind === "no_candidate") return t("value.has_candidate");
  if (kind === "one_rack") return t("value.several_racks");
  if (kind === "replication") return t("value.no_replication_alarm");
  if (kind === "outbox_unreachable") return t("value.outbox_usable");
  if (kind === "group_state") return t(clearThreshold < 1 ? "value.read_write" : "value.online");
  return t("at_most", { value: valueText(kind, clearThreshold, language, t) });
}
