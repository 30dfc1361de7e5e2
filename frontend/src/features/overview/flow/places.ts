import type { FlowPlace } from "@/features/overview/queries";
import type { Target } from "@/ui/links/addresses";

/** The column of a place: its ID begins with it. */
const COLUMNS = { a: "applications", s: "subjects", g: "groups" } as const;

export function columnOf({ id }: FlowPlace): (typeof COLUMNS)[keyof typeof COLUMNS] {
  return COLUMNS[id.charAt(0) as keyof typeof COLUMNS];
}

/** Where a click on a place goes. Pure. */
export function targetOf(place: FlowPlace): Target {
  switch (place.kind) {
    case "subject":
      return { to: "/subjects/$subject", params: { subject: place.name } };
    case "group":
      return { to: "/groups/$subject/$group", params: { subject: place.subject, group: place.name } };
    case "application":
      return { to: "/clients", search: { search: place.name } };
    case "delay_nodes":
      return { to: "/clients", search: { role: "delay_node" } };
    case "unnamed":
      return { to: "/clients", search: { role: "producer" } };
    case "others":
      return { applications: { to: "/clients" }, subjects: { to: "/subjects" }, groups: { to: "/groups" } }[
        columnOf(place)
      ] as Target;
  }
}

const STATE_COLOURS = {
  caught_up: "teal",
  idle: "gray",
  draining: "blue",
  growing: "orange",
  stopped: "red",
  paused: "grape",
  unknown: "gray",
} as const satisfies Record<NonNullable<FlowPlace["state"]>, string>;

/** The colour of a group by its lag; grey for everything else. */
export function colourOf({ kind, state }: FlowPlace): string {
  if (kind !== "group" || !state) return "gray";
  return STATE_COLOURS[state];
}
