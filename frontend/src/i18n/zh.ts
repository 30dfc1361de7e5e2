import type { Texts } from "@/i18n";

const files = import.meta.glob<Record<string, unknown>>("./zh/*.json", { eager: true, import: "default" });

/** All Chinese texts, a namespace a file: zh/groups.json is `useTranslation("groups")`. */
export const texts: Texts = Object.fromEntries(
  Object.entries(files).map(([path, entries]) => [path.replace("./zh/", "").replace(".json", ""), entries]),
);
