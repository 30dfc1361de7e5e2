import { memo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { Card } from "@/features/overview/Card";
import { EventList } from "@/shared/EventList";
import { LinkTo } from "@/ui/links/LinkTo";

/** The newest events of the whole system. */
export const Events = memo(function Events() {
  const { t } = useTranslation();
  return (
    <Card title={t("events.recent")}>
      <EventList />
      <LinkTo to="/events" size="sm">
        {t("events.all")}
      </LinkTo>
    </Card>
  );
});
