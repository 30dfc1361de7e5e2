import { Tabs } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { AlertList } from "@/features/alerts/AlertList";
import { ChannelList } from "@/features/alerts/ChannelList";
import { RuleList } from "@/features/alerts/RuleList";
import { SilenceList } from "@/features/alerts/SilenceList";
import { PageHeader } from "@/ui/page/PageHeader";
import { useUrlState } from "@/ui/links/urlState";

const TABS: readonly { id: string; Panel: ComponentType }[] = [
  { id: "alerts", Panel: AlertList },
  { id: "rules", Panel: RuleList },
  { id: "channels", Panel: ChannelList },
  { id: "silences", Panel: SilenceList },
];

/** Alerts of now and before, their rules, the channels that are notified, and the silences. */
export default function AlertsPage() {
  const { t } = useTranslation("alerts");
  const navigate = useNavigate();
  const [search] = useUrlState();
  const { id: shown, Panel } = TABS.find(({ id }) => id === search.tab) ?? { id: "alerts", Panel: AlertList };
  return (
    <>
      <PageHeader title={t("title")} description={t(`about.${shown}`)} />
      <Tabs
        value={shown}
        keepMounted={false}
        // Filters of the tab that is left go with it.
        onChange={(tab) => void navigate({ to: ".", search: { tab }, resetScroll: false })}
      >
        <Tabs.List mb="md" aria-label={t("title")}>
          {TABS.map(({ id }) => (
            <Tabs.Tab key={id} value={id}>
              {t(`tab.${id}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={shown}>
          <Panel />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
