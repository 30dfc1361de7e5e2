import type { Schema } from "@/api/client";
import { limitsOf } from "@/api/limits";
import type { Subject } from "@/features/subjects/queries";

/** Masking rules of a subject, whole: the API fills in what a rule leaves out. Pure. */

export type Rule = Required<NonNullable<Schema<"PatchedSubjectChangeRequest">["masking"]>[number]>;

export const ROLES = ["operator", "admin"] as const;
export const HOWS = ["hide", "last4", "hash"] as const satisfies readonly Rule["how"][];
export const RULES_MAX = limitsOf("NewSubjectRequest", "masking").maxItems ?? 0;

/** A new rule: nothing yet, hidden from everybody but administrators. */
export const EMPTY_RULE: Rule = { properties: [], json_paths: [], roles: ["admin"], how: "hide" };

export function rulesOf(subject: Pick<Subject, "masking">): Rule[] {
  return (subject.masking ?? []).map((rule) => ({ ...EMPTY_RULE, roles: [], ...rule }));
}

/** Whether every rule names something. */
export function areComplete(rules: readonly Rule[]): boolean {
  return rules.every(({ properties, json_paths: paths }) => properties.length + paths.length > 0);
}

/** Patterns and paths that hide nothing of a message: perhaps a mistake in writing. */
export function unmatched(rules: readonly Rule[], role: string, values: readonly Schema<"MaskedValue">[]): string[] {
  if (values.some(({ why }) => why !== null)) return [];
  const found = new Set(values.map(({ rule }) => rule));
  return rules
    .filter(({ roles }) => !roles.includes(role))
    .flatMap(({ properties, json_paths: paths }) => [...properties, ...paths])
    .filter((pattern) => !found.has(pattern));
}
