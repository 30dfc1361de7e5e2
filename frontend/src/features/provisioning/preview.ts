import type { Preview, PreviewStep } from "@/features/provisioning/queries";
import * as values from "@/format/values";

export const ACTIONS = ["create", "update", "archive", "restore"] as const;
export type Action = (typeof ACTIONS)[number];

/** What a preview does, by kind of step, in the order of the document; what stays as it is by itself. */
export function grouped(preview: Preview): { changes: Map<Action, PreviewStep[]>; kept: PreviewStep[] } {
  const changes = new Map<Action, PreviewStep[]>();
  for (const action of ACTIONS) {
    const steps = preview.steps.filter((step) => step.action === action);
    if (steps.length > 0) changes.set(action, steps);
  }
  return { changes, kept: preview.steps.filter(({ action }) => action === "keep") };
}

/** The subject whose name has to be typed before a preview is done: the first it archives; none without. */
export function dangerousName(preview: Preview): string | undefined {
  return preview.steps.find(({ action }) => action === "archive")?.target;
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
export function differences({ before, after }: Pick<PreviewStep, "before" | "after">): Difference[] {
  return values
    .differences(before, after)
    .map(({ name, ...each }) => ({ field: name, before: written(each.before), after: written(each.after) }));
}
