import { useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { count } from "@/format/numbers";
import { dateTime } from "@/format/times";
import { useLanguage, useZone } from "@/ui/preferences";

type ResultPart = Schema<"ResultPart">;
type Job = Pick<Schema<"JobRow">, "result" | "result_parts">;
type FailedJob = Pick<Schema<"JobRow">, "error" | "error_parts">;

/** Parts with this prefix are conditions that the job waits for. */
const WAITING = "waiting.";

/** A part of a result in the viewer's language; "" if this page does not know its code. */
export function useResultPart(): (part: ResultPart) => string {
  const { t } = useTranslation("jobs");
  const language = useLanguage();
  const zone = useZone();
  return useCallback(
    ({ code, values }) => {
      const shown = (name: string, value: unknown) => {
        if (typeof value !== "number") return value;
        return name === "at_ms" ? dateTime(new Date(value).toISOString(), zone) : count(value, language);
      };
      const all = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, shown(name, value)]));
      return t(`result.${code}`, { ...all, shown: all.count, count: Number(values.count), defaultValue: "" });
    },
    [t, language, zone],
  );
}

/**
 * The result of a background job in the viewer's language; the stored English text if an older or newer version wrote
 * it.
 */
export function useJobResult(): (job: Job) => string {
  const { t } = useTranslation("jobs");
  const textOf = useResultPart();
  return useCallback(
    ({ result, result_parts: parts }) => {
      const texts = parts.map(textOf);
      if (texts.length === 0 || texts.includes("")) return result;
      const joined = (isWait: boolean, separator: string) =>
        texts.filter((_, index) => parts[index]?.code.startsWith(WAITING) === isWait).join(separator);
      const [facts, waits] = [joined(false, t("result_comma")), joined(true, t("result_semicolon"))];
      return waits ? t("result_waits", { facts, waits }) : facts;
    },
    [t, textOf],
  );
}

/**
 * Why the last run of a background job failed, in the viewer's language; the stored English text of an error without
 * codes.
 */
export function useJobError(): (job: FailedJob) => string {
  const { t } = useTranslation("jobs");
  const textOf = useResultPart();
  return useCallback(
    ({ error, error_parts: parts }) => {
      const texts = parts.map(textOf);
      return texts.length === 0 || texts.includes("") ? error : texts.join(t("result_colon"));
    },
    [t, textOf],
  );
}
