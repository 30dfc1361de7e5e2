import found from "virtual:limits";
import type { components } from "@/api/schema.gen";
import type { Limit, Limits } from "../../limits";

const all = found as Limits;

type Schemas = components["schemas"];
/** A body that is sent to the API. */
export type RequestName = Extract<keyof Schemas, `${string}Request`>;
export type FieldOf<Name extends RequestName> = keyof Schemas[Name] & string;

/** What the API accepts in a field of a request; empty when everything. */
export function limitsOf<Name extends RequestName>(request: Name, field: FieldOf<Name>): Limit {
  return all[request]?.[field] ?? {};
}

/** Whether a text has the pattern of its field. An empty one does: whether a value is required is another question. */
export function isWellFormed({ pattern }: Limit, text: string): boolean {
  return pattern === undefined || text.trim() === "" || new RegExp(pattern).test(text.trim());
}

/** One limit that the form counts on: without it the OpenAPI file is not the one this was written for. */
export function limit<Name extends RequestName>(
  request: Name,
  field: FieldOf<Name>,
  which: Exclude<keyof Limit, "pattern" | "items">,
): number {
  const found = limitsOf(request, field)[which];
  if (found === undefined) throw new Error(`${request}.${field} has no ${which}`);
  return found;
}
