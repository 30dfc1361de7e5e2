import { ActionIcon, Button, Center, Group, Loader, Paper, Text, Title } from "@mantine/core";
import { IconArrowLeft, IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { HOUR_MS, pendingIn, WINDOW_DAYS, type Cell, type Counts, type Day } from "@/features/delayed/calendar";
import { addDays, dayOf } from "@/format/times";
import { DayHours } from "@/features/delayed/DayHours";
import { HeatMap } from "@/features/delayed/HeatMap";
import { zoneName } from "@/format/times";
import { count } from "@/format/numbers";
import { useLanguage, useZone } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Unreachable } from "@/ui/measure/Unreachable";
import { useNowBy } from "@/ui/measure/useNow";

export interface CalendarProps {
  days: readonly Day[];
  /** The day that is shown in detail; null: the whole window. */
  day: Day | null;
  counts: Counts | null;
  unreachable: Readonly<Record<string, string>>;
  error: unknown;
  onRetry: () => void;
  selected: Cell | null;
  onHour: (cell: Cell) => void;
  /** Look at one day closely; null: at the window again. */
  onDay: (day: string | null) => void;
  /** Another window, by its first day; undefined: from today on. */
  onWindow: (first: string | undefined) => void;
}

/** When messages fall due: a month by hours, or one day of it. */
export function CalendarView(props: CalendarProps) {
  const { days, day, counts, unreachable, error, onRetry, selected, onHour, onDay, onWindow } = props;
  const { t } = useTranslation("delayed");
  const zone = useZone();
  const language = useLanguage();
  const today = dayOf(useNowBy(HOUR_MS), zone);
  const [first, last] = [days[0], days.at(-1)];
  const range = day ? day.day : first && last ? `${first.day} – ${last.day}` : "";
  const move = (back: boolean) => {
    const sign = back ? -1 : 1;
    if (day) onDay(addDays(day.day, sign));
    else onWindow(addDays(first?.day ?? today, sign * WINDOW_DAYS));
  };
  const isPartial = Object.keys(unreachable).length > 0;
  const fields = counts && { counts, isPartial, selected, onHour };
  const sum = counts ? (day ? [day] : days).reduce((total, each) => total + pendingIn(each, counts), 0) : 0;
  return (
    <Paper withBorder p="md" component="section" aria-label={t("calendar.title")}>
      <Group justify="space-between" mb="xs" gap="xs">
        <Group gap="sm" align="baseline">
          <Title order={2} size="h4">
            {t("calendar.title")}
          </Title>
          <Text size="sm" c="dimmed" aria-live="polite">
            {range} · {zoneName(zone)}
            {counts && (
              <>
                {" · "}
                <b data-total="">
                  {t(isPartial ? "calendar.sum_at_least" : "calendar.sum", { count: sum, shown: count(sum, language) })}
                </b>
              </>
            )}
          </Text>
        </Group>
        <Group gap={4}>
          {day && (
            <Button
              size="compact-md"
              variant="default"
              leftSection={<IconArrowLeft size={16} aria-hidden />}
              onClick={() => onDay(null)}
            >
              {t("calendar.month")}
            </Button>
          )}
          <ActionIcon variant="default" size="lg" aria-label={t("calendar.earlier")} onClick={() => move(true)}>
            <IconChevronLeft size={18} aria-hidden />
          </ActionIcon>
          <Button
            size="compact-md"
            variant="default"
            onClick={() => {
              if (day) onDay(today);
              else onWindow(undefined);
            }}
          >
            {t("calendar.today")}
          </Button>
          <ActionIcon variant="default" size="lg" aria-label={t("calendar.later")} onClick={() => move(false)}>
            <IconChevronRight size={18} aria-hidden />
          </ActionIcon>
        </Group>
      </Group>
      <Unreachable of={unreachable} />
      {error !== null && <ProblemAlert error={error} onRetry={onRetry} />}
      {counts === null && error === null && (
        <Center h={420}>
          <Loader aria-label={t("calendar.loading")} />
        </Center>
      )}
      {fields && (
        // Its own frame for what stands absolutely in it (texts for screen readers), else they widen the page.
        <div style={{ position: "relative", overflowX: "auto", padding: 2 }}>
          {day ? <DayHours day={day} {...fields} /> : <HeatMap days={days} {...fields} onDay={onDay} />}
        </div>
      )}
    </Paper>
  );
}
