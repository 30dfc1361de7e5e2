import { Skeleton } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { About } from "@/api/events";
import { LinkTo } from "@/ui/links/LinkTo";
import { Part } from "@/ui/page/Part";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const EventList = whenDrawn(
  async () => (await import("@/shared/EventList")).EventList,
  ["events", "alerts", "reasons"],
);

/** A part of a page: the newest events of what it is about. They are loaded after the page. */
export const RecentEvents = memo(function RecentEvents(about: About) {
  const { t } = useTranslation();
  return (
    <Part title={t("events.recent")}>
      <EventList about={about} waiting={<Skeleton height={130} />} />
      <LinkTo to="/events" search={{ ...about }} size="sm">
        {t("events.all")}
      </LinkTo>
    </Part>
  );
});
