import type { Phase, Route } from "@/features/subjects/queries";

/** Where a broker group stands with a subject: one that neither comes nor goes serves. */
export type Standing = Phase | "serving";

/** Whether producers send there, and whether consumers read there. */
export interface Flow {
  isWritten: boolean;
  isRead: boolean;
}

export const FLOWS: Readonly<Record<Standing, Flow>> = {
  joining: { isWritten: false, isRead: true },
  serving: { isWritten: true, isRead: true },
  leaving: { isWritten: true, isRead: true },
  draining: { isWritten: false, isRead: true },
};

export interface Place {
  brokerGroup: string;
  standing: Standing;
}

const ORDER: readonly Standing[] = ["joining", "serving", "leaving", "draining"];

/**
 * The broker groups of a route with their standing: those that come first, then those that stay, then those that go.
 */
export function placesOf(route: Pick<Route, "broker_groups" | "phases">): readonly Place[] {
  return route.broker_groups
    .map((brokerGroup) => ({ brokerGroup, standing: route.phases[brokerGroup] ?? ("serving" as const) }))
    .sort(
      (one, other) =>
        ORDER.indexOf(one.standing) - ORDER.indexOf(other.standing) || one.brokerGroup.localeCompare(other.brokerGroup),
    );
}

/** The broker groups that will serve a subject once its moves are over. */
export function targetsOf(route: Pick<Route, "broker_groups" | "phases">): readonly string[] {
  return placesOf(route)
    .filter(({ standing }) => standing === "serving" || standing === "joining")
    .map(({ brokerGroup }) => brokerGroup)
    .sort();
}

/** A preview's route, from what the API says a change makes of it. */
export function routeIn(value: unknown): Pick<Route, "broker_groups" | "phases"> {
  const route = (value ?? {}) as Partial<Route>;
  return { broker_groups: route.broker_groups ?? [], phases: route.phases ?? {} };
}

/** What a change does to each broker group that it touches. */
export function stepsOf(before: unknown, after: unknown): readonly Place[] {
  const old = routeIn(before);
  return placesOf(routeIn(after)).filter(
    ({ brokerGroup, standing }) =>
      !old.broker_groups.includes(brokerGroup) || (old.phases[brokerGroup] ?? "serving") !== standing,
  );
}
