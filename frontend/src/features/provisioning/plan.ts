import type { Plan, PlanStep } from "@/features/provisioning/queries";
import * as values from "@/format/values";

export const ACTIONS = ["create", "update", "archive", "restore"] as const;
export type Action = (typeof ACTIONS)[number];

/** What a plan does, by kind of step, in the order of the document; what stays as it is by itself. */
export function grouped(plan: Plan): { changes: Map<Action, PlanStep[]>; kept: PlanStep[] } {
  const changes = new Map<Action, PlanStep[]>();
  for (const action of ACTIONS) {
    const steps = plan.steps.filter((step) => step.action === action);
    if (steps.length > 0) changes.set(action, steps);
  }
  return { changes, kept: plan.steps.filter(({ action }) => action === "keep") };
}

/** The subject whose name has to be typed before a plan is done: the first it archives; none without. */
export function dangerousName(plan: Plan): string | undefined {
  return plan.steps.find(({ action }) => action === "archive")?.target;
}

/** A field that a step makes different; null where it was not there, or is not set. */
export interface Difference {
  field: string;
  before: string | null;
  after: string | null;
}

function written(value: unknown): string | null {
  if (values.isEmpty(value)) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Each field that differs; of something new, each that is set. */
export function differences({ before, after }: Pick<PlanStep, "before" | "after">): Difference[] {
  return values
    .differences(before, after)
    .map(({ name, ...each }) => ({ field: name, before: written(each.before), after: written(each.after) }));
}
