import { useCallback } from "react";
import { useSentence } from "@/i18n/useSentence";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { numberFormat } from "@/format/intl";
import { useLanguage } from "@/ui/preferences";

export type Explanation = Schema<"Explanation">;

/** Whether a value that a node reports, which no schema describes, is a reason. */
export function isExplanation(value: unknown): value is Explanation {
  return typeof value === "object" && value !== null && "code" in value && "values" in value && "text" in value;
}

/**
 * The sentence of a reason, or of a note of a change, in the viewer's language. One with a code that this page does not
 * know is shown by its text; so is `text`, the sentence of a reason that has no code.
 */
export function useReason(): (why: Explanation | null | undefined, text: string) => string {
  const { t } = useTranslation("reasons");
  const language = useLanguage();
  const sent = useSentence();
  return useCallback(
    (why, text) => {
      const shown = (name: string, value: unknown): unknown => {
        if (isExplanation(value)) return sentence(value);
        if (typeof value === "number") return numberFormat(language, { maximumFractionDigits: 1 }).format(value);
        if (name === "role" || name === "kind") return t(`${name}.${String(value)}`, { defaultValue: String(value) });
        return typeof value === "string" ? sent(value) : value;
      };
      const sentence = ({ code, values, text: english }: Explanation): string => {
        const all = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, shown(name, value)]));
        return code
          ? t([`code.${code}`, `notes:code.${code}`], { ...all, defaultValue: sent(english) })
          : sent(english);
      };
      return why ? sentence(why) : sent(text);
    },
    [t, language, sent],
  );
}

/** Whether a process made a change: its reason is no text that a person wrote. */
export function isProcess(actor: string): boolean {
  return actor === "metaserver" || actor === "system" || actor.startsWith("job ");
}

/** What is recorded of a change. */
export interface Recorded {
  why?: Explanation | null;
  reason?: string | null;
  /** Who made it; nothing where no one did, or viewers may not see it. */
  actor?: string | null;
}

/** As `useReason`, of a recorded change: what a person wrote stays as it was written. */
export function useRecordedReason(): (change: Recorded) => string {
  const reasonOf = useReason();
  return useCallback(
    ({ why, reason, actor }) => (why || !actor || isProcess(actor) ? reasonOf(why, reason ?? "") : (reason ?? "")),
    [reasonOf],
  );
}
