import type { Texts } from "@/i18n";

const files = import.meta.glob<Record<string, unknown>>(
  ["./*.json", "!./common.json", "!./overview.json", "!./sign_in.json"],
  { eager: true, import: "default" },
);

/** All other Chinese texts, a namespace a file: groups.json is `useTranslation("groups")`. */
export const texts: Texts = Object.fromEntries(
  Object.entries(files).map(([path, entries]) => [path.replace("./", "").replace(".json", ""), entries]),
);
