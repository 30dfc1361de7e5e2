import { Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { History } from "@/api/history";
import { dateTime } from "@/format/times";
import { rangeNotes, type Job } from "@/shared/ranges/notes";
import { LinkTo } from "@/ui/links/LinkTo";
import { useSentence } from "@/i18n/useSentence";
import { useLanguage, useZone } from "@/ui/preferences";

const PLACES = {
  analytics: { to: "/analytics", search: { tab: "runs" } },
  summaries: { to: "/jobs" },
} as const satisfies Record<Job, unknown>;

/** What `rangeNotes` says of a range, below its chart. */
export function RangeNote({ data, lines }: { data: History | undefined; lines: Readonly<Record<string, string>> }) {
  const { t } = useTranslation("ranges");
  const reasonOf = useSentence();
  const [language, zone] = [useLanguage(), useZone()];
  if (!data?.summary) return null;
  const { job } = data.summary;
  const instant = (at: string) => dateTime(at, zone).slice(0, 16);
  const words = {
    language,
    t: (key: string, values?: Record<string, string | number>) => t(key, { ...values }),
    instant,
    reasonOf,
  };
  const notes = rangeNotes(data, lines, words);
  return (
    <div data-range-note="">
      {notes.map(({ id, text }) => (
        <Text key={id} size="xs" c="dimmed" data-note={id}>
          {text}
        </Text>
      ))}
      {notes.some(({ id }) => id === "never" || id === "late") && (
        <LinkTo {...PLACES[job]} size="xs">
          {t(`by.${job}.open`)}
        </LinkTo>
      )}
    </div>
  );
}
