import type { AlertKind, NewRule, Rule } from "@/features/alerts/queries";
import { isWord } from "@/features/alerts/words";

/** The API's share of the threshold at which an alert ends when none is named. */
export const CLEAR_SHARE = 0.8;

/** A rule as its form holds it; "" is a number not (yet) given. */
export interface RuleDraft {
  name: string;
  kind: AlertKind;
  target: string;
  threshold: number | "";
  clearThreshold: number | "";
  forSeconds: number | "";
  clearForSeconds: number | "";
  windowSeconds: number | "";
  severity: Rule["severity"];
  channels: string[];
}

export const NEW_RULE: RuleDraft = {
  name: "",
  kind: "lag",
  target: "*",
  threshold: "",
  clearThreshold: "",
  forSeconds: 60,
  clearForSeconds: 60,
  windowSeconds: 600,
  severity: "warning",
  channels: [],
};

export function draftOf(rule: Rule): RuleDraft {
  return {
    name: rule.name,
    kind: rule.kind,
    target: rule.target,
    threshold: rule.threshold,
    clearThreshold: rule.clear_threshold,
    forSeconds: rule.for_seconds,
    clearForSeconds: rule.clear_for_seconds,
    windowSeconds: rule.window_seconds,
    severity: rule.severity,
    channels: rule.channels,
  };
}

/** With another kind the numbers mean something else: what was typed is no threshold of it. */
export function withKind(draft: RuleDraft, kind: AlertKind): RuleDraft {
  const threshold = kind === "group_state" ? 1 : kind === "unknown" ? 0 : "";
  return { ...draft, kind, threshold, clearThreshold: "" };
}

export function isComplete(draft: RuleDraft): boolean {
  return draft.name.trim() !== "" && draft.target !== "" && draft.threshold !== "";
}

/** At or below what an alert ends. States have no "in between": they end with what made them fire. */
export function clearOf({ kind, threshold, clearThreshold }: RuleDraft): number {
  const above = threshold || 0;
  if (isWord(kind)) return above;
  return clearThreshold === "" ? above * CLEAR_SHARE : clearThreshold;
}

/** What goes to the API; it checks the values. A clear threshold that was left empty is the API's own share, also later. */
export function toRule(draft: RuleDraft): NewRule {
  return {
    name: draft.name.trim(),
    kind: draft.kind,
    target: draft.target,
    threshold: draft.threshold || 0,
    clear_threshold: isWord(draft.kind) ? clearOf(draft) : draft.clearThreshold === "" ? null : draft.clearThreshold,
    for_seconds: draft.forSeconds || 0,
    clear_for_seconds: draft.clearForSeconds || 0,
    ...(draft.kind === "dead_letters" && draft.windowSeconds !== "" ? { window_seconds: draft.windowSeconds } : {}),
    severity: draft.severity,
    channels: draft.channels,
  };
}
