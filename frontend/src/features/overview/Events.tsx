import { useTranslation } from "react-i18next";
import { Card } from "@/features/overview/Card";
import { EventList } from "@/shared/EventList";
import { LinkTo } from "@/ui/links/LinkTo";

/** The newest events of the whole system. */
export function Events() {
  const { t } = useTranslation("overview");
  return (
    <Card title={t("events")}>
      <EventList limit={5} />
      <LinkTo to="/events" size="sm">
        {t("all_events")}
      </LinkTo>
    </Card>
  );
}
