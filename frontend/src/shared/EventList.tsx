import { List, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { eventsOptions, type Event, type EventFilters } from "@/api/events";
import { describeEvent } from "@/shared/describeEvent";
import { useEventText } from "@/shared/useEventText";
import { LinkTo } from "@/ui/links/LinkTo";
import { Instant } from "@/ui/measure/Instant";
import { loaded } from "@/ui/page/loaded";
import "@/shared/events.css";

export const SEVERITY_COLOURS: Readonly<Record<Event["severity"], string>> = {
  critical: "red",
  warning: "orange",
  info: "gray",
};

/** Height of an event on one line. */
const LINE_PX = 26;

/** The newest events that the filters select, as sentences; `limit` of them at most. They are read again and again. */
export function EventList({ limit = 5, ...filters }: EventFilters & { limit?: number }) {
  const { t } = useTranslation("events");
  const [data, instead] = loaded(useQuery(eventsOptions(filters, limit)), <Skeleton height={limit * LINE_PX} />);
  if (!data) return instead;
  if (data.results.length === 0) return <Text c="dimmed">{t("empty.short")}</Text>;
  return (
    <List listStyleType="none" size="sm" className="events">
      {data.results.map((event) => (
        <EventLine key={event.id} event={event} />
      ))}
    </List>
  );
}

function EventLine({ event }: { event: Event }) {
  const { t } = useTranslation("events");
  return (
    <List.Item data-event={event.kind} data-severity={event.severity}>
      <span className="event-dot" aria-hidden />
      <span className="sr-only">{t(`severity.${event.severity}`)}</span>
      <Text size="sm" c="dimmed" span className="event-time">
        <Instant at={event.at} relative />
      </Text>
      <span className="break">
        <EventSentence event={event} />
      </span>
    </List.Item>
  );
}

/** What an event says; the name of what it concerns is a link to its page. */
export function EventSentence({ event }: { event: Event }) {
  const { before, name, after } = useEventText()(event);
  const { target } = describeEvent(event);
  return (
    <span className="prose">
      {before}
      {target && name ? (
        <LinkTo {...target} size="sm">
          {name}
        </LinkTo>
      ) : (
        name
      )}
      {after}
    </span>
  );
}
