import { useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";

/** By the key of the translation in `sent`. Groups are its values; `why` is such a sentence itself. */
const SENTENCES = {
  connection_refused: /^connection refused$/,
  connection_reset: /^connection reset by peer$/,
  no_route: /^no route to host$/,
  network_unreachable: /^network is unreachable$/,
  unknown_host: /^name or service not known$/,
  no_response: /^no response within (?<time>\S+ \S+)$/,
  timed_out: /^timed out after (?<time>\S+ \S+)$/,
  no_heartbeat: /^no heartbeat for (?<time>\S+ \S+)$/,
  cant_be_reached: /^(?<address>\S+) can't be reached: (?<why>.+)$/,
  being_read: /^node (?<node>\S+): its subjects are being read$/,
  not_read: /^node (?<node>\S+): its subjects were not read in (?<time>\S+ \S+)$/,
  not_reported: /^not reported by a node$/,
  not_queried: /^not queried$/,
  no_address: /^no node has registered with an admin address$/,
  gone: /^this broker group no longer exists$/,
  too_many: /^not queried: the limit is (?<most>\d+) broker groups at a time$/,
  no_collector: /^The collector has not reported recently\. Check that it is running\.$/,
  outdated: /^The latest measurements are outdated\. Check that the collector is running\.$/,
} as const;

/** All cells of a list have the same reason, mostly. */
let last: { text?: string; t?: unknown; shown: string } = { shown: "" };

/**
 * Why something is not known, in the viewer's language: of the sentences that nodes and the API send as text, those
 * that viewers see most; others stay as they came.
 */
export function useSentReason(): (text: string) => string {
  const { t } = useTranslation();
  return useCallback(
    (text) => {
      const translated = (sentence: string): string => {
        for (const [key, pattern] of Object.entries(SENTENCES)) {
          const found = pattern.exec(sentence);
          if (found === null) continue;
          const { why, ...values } = found.groups ?? {};
          return t(`sent.${key as keyof typeof SENTENCES}`, { ...values, why: why && translated(why) });
        }
        return sentence;
      };
      if (last.text !== text || last.t !== t) last = { text, t, shown: translated(text) };
      return last.shown;
    },
    [t],
  );
}
