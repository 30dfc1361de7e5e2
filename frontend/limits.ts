import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Plugin } from "vite";

// It has no types of its own.
const yaml = createRequire(import.meta.url)("js-yaml") as { load: (text: string) => unknown };

const NUMBERS = ["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"] as const;

/** What a field of a request may hold, as the OpenAPI file says. */
export type Limit = Partial<Record<(typeof NUMBERS)[number], number>> & { pattern?: string; items?: Limit };
export type Limits = Record<string, Record<string, Limit>>;

type Described = Readonly<Record<string, unknown>>;

function limitOf(field: Described): Limit {
  const found: Limit = {};
  for (const name of NUMBERS) if (typeof field[name] === "number") found[name] = field[name];
  if (typeof field.pattern === "string") found.pattern = field.pattern;
  const items = field.items ? limitOf(field.items as Described) : {};
  return Object.keys(items).length > 0 ? { ...found, items } : found;
}

/** The limits of all request schemas in an OpenAPI file, by schema and field; what has none is left out. */
export function limitsIn(text: string): Limits {
  const { components } = yaml.load(text) as { components: { schemas: Record<string, { properties?: object }> } };
  return Object.fromEntries(
    Object.entries(components.schemas).flatMap(([name, { properties = {} }]) => {
      const fields = Object.entries(properties).map(([field, described]) => [field, limitOf(described as Described)]);
      const limited = fields.filter(([, limit]) => Object.keys(limit as Limit).length > 0);
      return name.endsWith("Request") && limited.length > 0
        ? [[name, Object.fromEntries(limited) as Limits[string]]]
        : [];
    }),
  );
}

const FILE = new URL("../api/openapi.yaml", import.meta.url).pathname;
const ID = "virtual:limits";

/** Gives the browser the limits that the API checks: `import limits from "virtual:limits"`. */
export function limits(): Plugin {
  return {
    name: "limits",
    resolveId: (id) => (id === ID ? `\0${ID}` : undefined),
    load(id) {
      if (id !== `\0${ID}`) return undefined;
      this.addWatchFile(FILE);
      return `export default ${JSON.stringify(limitsIn(readFileSync(FILE, "utf8")))}`;
    },
  };
}
