import { useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { lineOf } from "@/format/values";

/** A value of a change in a line: yes or no, a dash for what is empty. */
export function useValueLine(): (value: unknown) => string {
  const { t } = useTranslation();
  return useCallback(
    (value) => (typeof value === "boolean" ? t(value ? "change.yes" : "change.no") : lineOf(value)),
    [t],
  );
}
