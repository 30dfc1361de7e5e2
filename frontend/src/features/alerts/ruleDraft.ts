import type { AlertKind } from "@/api/alerts";
import type { NewRule, Rule } from "@/features/alerts/queries";
import { isWord } from "@/shared/alerts/words";

/** The API's share of the threshold at which an alert ends when none is named. */
export const CLEAR_SHARE = 0.8;

type Amount = "threshold" | "clear_threshold" | "for_seconds" | "clear_for_seconds" | "window_seconds";

/** A rule as its form holds it; "" is a number not (yet) given. */
export type RuleDraft = Pick<Rule, "name" | "kind" | "target" | "severity" | "channels"> & Record<Amount, number | "">;

export const NEW_RULE: RuleDraft = {
  name: "",
  kind: "lag",
  target: "*",
  threshold: "",
  clear_threshold: "",
  for_seconds: 60,
  clear_for_seconds: 60,
  window_seconds: 600,
  severity: "warning",
  channels: [],
};

/** With another kind the numbers mean something else: what was typed is no threshold of it. */
export function withKind(draft: RuleDraft, kind: AlertKind): RuleDraft {
  const threshold = kind === "group_state" ? 1 : isWord(kind) ? 0 : "";
  return { ...draft, kind, threshold, clear_threshold: "" };
}

export function isComplete(draft: RuleDraft): boolean {
  return draft.name.trim() !== "" && draft.target !== "" && draft.threshold !== "";
}

/** At or below what an alert ends. States have no "in between": they end with what made them fire. */
export function clearOf({ kind, threshold, clear_threshold: clear }: RuleDraft): number {
  const above = threshold || 0;
  if (isWord(kind)) return above;
  return clear === "" ? above * CLEAR_SHARE : clear;
}

/**
 * What goes to the API; it checks the values. A clear threshold that was left empty is the API's own share, also later.
 */
export function toRule(draft: RuleDraft): NewRule {
  const { name, kind, target, severity, channels, clear_threshold, window_seconds } = draft;
  return {
    name: name.trim(),
    kind,
    target,
    threshold: draft.threshold || 0,
    clear_threshold: isWord(kind) ? clearOf(draft) : clear_threshold === "" ? null : clear_threshold,
    for_seconds: draft.for_seconds || 0,
    clear_for_seconds: draft.clear_for_seconds || 0,
    ...(kind === "dead_letters" && window_seconds !== "" ? { window_seconds } : {}),
    severity,
    channels,
  };
}
