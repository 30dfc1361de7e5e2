import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { expect, test } from "vitest";

const LIBRARY = resolve("node_modules/@mantine/core");
const STYLES = ".module.mjs";

function read(folder: string, end: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => end.test(name))
    .map((name) => resolve(folder, name));
}

/** What is imported from the library by name, by us and by its other parts. */
function used(): Set<string> {
  const files = [
    ...read(resolve("src"), /\.tsx?$/),
    ...["notifications", "dates"].flatMap((part) => read(resolve(`node_modules/@mantine/${part}/esm`), /\.mjs$/)),
  ];
  const imports = files.flatMap((file) => [
    ...readFileSync(file, "utf8").matchAll(/import \{([^}]*)\} from "@mantine\/core"/g),
  ]);
  return new Set(
    imports.flatMap(([, names]) => (names ?? "").split(",").map((name) => name.trim().split(" ")[0] ?? "")),
  );
}

/** The styles that these need, and all that they are made of. */
function stylesOf(names: ReadonlySet<string>): Set<string> {
  const modules = new Map(read(`${LIBRARY}/esm`, /\.mjs$/).map((file) => [basename(file, ".mjs"), file]));
  const files = new Set([...names].flatMap((name) => modules.get(name) ?? []));
  const styles = new Set<string>();
  // The loop also visits what is added to the set meanwhile.
  for (const file of files) {
    for (const [, from] of readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)"/g)) {
      const other = resolve(dirname(file), from ?? "");
      if (other.endsWith(STYLES)) styles.add(basename(other, STYLES));
      else files.add(other);
    }
  }
  return new Set([...styles].filter((name) => existsSync(`${LIBRARY}/styles/${name}.css`)));
}

const imported = [
  ...readFileSync("src/app/componentStyles.ts", "utf8").matchAll(/"@mantine\/core\/styles\/([\w-]+)\.css"/g),
].map(([, name]) => name ?? "");

test("every component that is used has its styles", () => {
  const missing = [...stylesOf(used())].filter((name) => !imported.includes(name));
  expect(missing.map((name) => `import "@mantine/core/styles/${name}.css";`)).toEqual([]);
});

test("they stand in the library's own order: later ones win over earlier ones", () => {
  const whole = readFileSync(`${LIBRARY}/styles.css`, "utf8");
  const places = imported.map((name) =>
    whole.indexOf(readFileSync(`${LIBRARY}/styles/${name}.css`, "utf8").slice(0, 200)),
  );
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(places).not.toContain(-1);
});
