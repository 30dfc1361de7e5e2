import { Alert, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { dueSoon, HOUR_MS, type Counts } from "@/features/delayed/calendar";
import { delayHealth, type Total } from "@/features/delayed/health";
import { dateTime } from "@/format/times";
import { useLive } from "@/live/useLive";
import { Measured, type Format } from "@/ui/measure/Measured";
import { NumberStrip, StripNumber } from "@/ui/measure/NumberStrip";
import { useZone } from "@/ui/preferences";
import { useNowBy } from "@/ui/measure/useNow";

/**
 * How the delay groups do: what waits, what comes soon, what is late. `counts` is null while the calendar is not known.
 */
export function Health({ counts, reason }: { counts: Counts | null; reason: string | null }) {
  const { t } = useTranslation("delayed");
  const zone = useZone();
  const soon = dueSoon(counts ?? new Map(), useNowBy(HOUR_MS));
  const live = useLive("/ws/nodes/");
  const health = delayHealth(live.state);
  if (live.at !== null && health.nodes.length === 0) {
    return (
      <Alert color="yellow" title={t("health.none")}>
        {t("health.none_text")}
      </Alert>
    );
  }
  const until = dateTime(new Date(soon.until).toISOString(), zone).slice(-8, -3);
  const number = (id: string, { value, reason }: Total, as?: Format, note?: string) => (
    <StripNumber label={t(`health.${id}`)} hint={t(`health.${id}_hint`)} note={note}>
      <Text span inherit c={id === "overdue" && value ? "orange" : undefined}>
        <Measured value={value} as={as} reason={reason} />
      </Text>
    </StripNumber>
  );
  return (
    <NumberStrip>
      {number("pending", health.pending)}
      {number(
        "soon",
        { value: counts === null ? null : soon.count, reason },
        "count",
        t("health.until", { at: until }),
      )}
      {number("overdue", health.overdue)}
      {number("put_aside", health.putAside)}
      {number("rate", health.deliveredPerSecond, "rate")}
      {number(
        "lateness",
        { ...health.latenessP99, reason: health.latenessP99.reason ?? t("health.no_lateness") },
        "duration",
      )}
    </NumberStrip>
  );
}
