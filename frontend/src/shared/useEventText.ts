import i18next from "i18next";
import { useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Event } from "@/api/events";
import { describeEvent } from "@/shared/describeEvent";
import { isExplanation, isProcess, useReason, useRecordedReason } from "@/ui/reasons";
import { useRuleName } from "@/shared/ruleNames";
import { textOf } from "@/format/values";

/** Stands for the name in a sentence until its link is there; no name has it. */
const HERE = "\u0001";
const COUNTED = ["create", "update", "archive", "restore"] as const;

export interface EventText {
  before: string;
  name: string;
  after: string;
}

/** An event's sentence in the viewer's language, in three parts: the name of what it concerns is a link. */
export function useEventText(): (event: Event) => EventText {
  const { t } = useTranslation("events");
  const ruleName = useRuleName();
  const reasonOf = useReason();
  const recorded = useRecordedReason();
  return useCallback(
    (event) => {
      const { key, values, name } = describeEvent(event);
      const [noun = "", verb = ""] = (event.action ?? "").split(".");
      const cause = (): string => {
        const { why } = event;
        // The sentence says who was promoted.
        if (why?.code === "promoted" && isExplanation(why.values.why)) return reasonOf(why.values.why, "");
        return recorded(event);
      };
      const filled: Record<string, string> = { ...values, target: HERE };
      if (filled.rule) filled.rule = ruleName(filled.rule);
      if (event.kind === "deployment") {
        const counts = COUNTED.flatMap((one) => {
          const n = Number(event.values[one] ?? 0);
          return n > 0 ? [t(`count.${one}`, { n })] : [];
        });
        filled.changes = counts.join(t("and"));
      }
      if (event.kind === "change") {
        // Other verbs say what was changed.
        const isUpdate = verb.startsWith("update") && Array.isArray(event.values.fields);
        const fields = isUpdate ? (event.values.fields as unknown[]).map(textOf).join(", ") : "";
        const failed = verb.endsWith("_failed");
        const plain = failed ? verb.slice(0, -"_failed".length) : verb;
        const done = i18next.exists(`events:verb.${plain}`) ? t(`verb.${plain}`) : plain.replaceAll("_", " ");
        filled.noun = i18next.exists(`events:noun.${noun}`) ? t(`noun.${noun}`) : noun.replaceAll("_", " ");
        filled.verb = (failed ? t("failed", { verb: done }) : done) + (fields ? t("fields", { fields }) : "");
      }
      let text = t(`sentence.${key}`, { ...filled, defaultValue: `${event.kind} ${HERE}` });
      // "registered" is no cause.
      const why = event.reason === "registered" && !event.why ? "" : cause();
      if (event.actor && !isProcess(event.actor)) text = t("by", { text, actor: event.actor });
      if (why) text = t("because", { text, why });
      const [before = "", ...rest] = text.split(HERE);
      // Not every sentence has a name.
      return { before, name: rest.length > 0 ? name : "", after: rest.join(name) };
    },
    [t, ruleName, reasonOf, recorded],
  );
}
