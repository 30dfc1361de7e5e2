import type { Texts } from "@/i18n";

const files = import.meta.glob<Record<string, unknown>>("./en/*.json", { eager: true, import: "default" });

/** All English texts, a namespace a file: en/groups.json is `useTranslation("groups")`. */
export const texts: Texts = Object.fromEntries(
  Object.entries(files).map(([path, entries]) => [path.replace("./en/", "").replace(".json", ""), entries]),
);
