import { useMatches } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay, type Right } from "@/api/me";
import { Problem } from "@/api/problem";
import { pages } from "@/app/pages";
import { textOf } from "@/format/values";
import { PageHeader } from "@/ui/page/PageHeader";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

/** The navigation entry of a page, or of the list above it: `/users` for `/users/$id`. */
function entryOf(path: string) {
  return (pages.find((page) => page.path === path) ?? pages.find((page) => page.path === `/${path.split("/")[1]}`))
    ?.nav;
}

/** A page that the user may not open shows this, and nothing that would not work. */
export function Allowed({ children }: { children: ReactNode }) {
  const { t } = useTranslation();
  const may = useMay();
  const path: unknown = useMatches().at(-1)?.fullPath;
  const entry = entryOf(textOf(path));
  if (!entry?.right || may(entry.right as Right)) return children;
  return (
    <>
      <PageHeader title={t(`nav.${entry.label}`)} />
      <ProblemAlert error={new Problem(403, "access.denied", t("problem.page_forbidden"), "")} />
    </>
  );
}
