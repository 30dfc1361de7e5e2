import { Group, Stack, Tabs } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { DemoNotice } from "@/features/analytics/DemoNotice";
import { PartOfView } from "@/features/analytics/PartOfView";
import { Pickers } from "@/features/analytics/Pickers";
import { demoOptions } from "@/features/analytics/queries";
import { rangeOf } from "@/features/analytics/range";
import { VIEWS } from "@/features/analytics/views";
import { Loading } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { IconButton } from "@/ui/menu/buttons";
import { RunNow } from "@/shared/RunNow";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const Runs = whenDrawn(async () => (await import("@/features/analytics/Runs")).Runs);
const RunProgress = whenDrawn(async () => (await import("@/features/analytics/RunProgress")).RunProgress);
const RUNS = "runs";
const TABS = [...Object.keys(VIEWS), RUNS];
/** The background job that runs all analytics jobs. */
const ANALYTICS_JOB = "analytics";

/**
 * What jobs found out, over time; with the runs that made it. The tab, the range and what is chosen are in the address.
 */
export default function AnalyticsPage() {
  const { t } = useTranslation("analytics");
  const may = useMay();
  const [search, change] = useUrlState();
  // "The last day" ends when the page was opened or refreshed: numbers do not change while a user reads or turns pages.
  const [now, setNow] = useState(() => Date.now());
  const range = useMemo(() => rangeOf(search, now), [search, now]);
  // The notice stands above all: the rest comes with it, and is not moved by it.
  const { isPending } = useQuery(demoOptions());
  const tab = TABS.find((id) => id === search.tab) ?? TABS[0];
  // The order, the page and what was chosen for one table mean nothing to another.
  const open = (next: string | null) =>
    change(
      {
        ...Object.fromEntries(Object.keys(search).flatMap((name) => (name.includes("_") ? [[name, undefined]] : []))),
        metric: undefined,
        tab: next ?? undefined,
      },
      true,
    );
  return (
    <>
      <PageHeader
        title={t("common:nav.analytics")}
        badges={<RunProgress />}
        actions={
          <Group gap="xs">
            {may("change_cluster") && <RunNow name={ANALYTICS_JOB} />}
            <IconButton icon={IconRefresh} label={t("common:table.refresh")} onClick={() => setNow(Date.now())} />
          </Group>
        }
      />
      <DemoNotice />
      {isPending ? (
        <Loading />
      ) : (
        <Tabs value={tab} onChange={open} keepMounted={false}>
          <Tabs.List mb="md" className="tabs-scroll">
            {TABS.map((id) => (
              <Tabs.Tab key={id} value={id}>
                {t(`tab.${id}`)}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          {Object.entries(VIEWS).map(([id, parts]) => (
            <Tabs.Panel key={id} value={id}>
              <Pickers
                range={range}
                withSubject={parts.some(({ names }) => names.includes("subject"))}
                withGroup={parts.some(({ names }) => names.includes("group"))}
              />
              <Stack gap="xl">
                {parts.map((part) => (
                  <PartOfView key={part.id} part={part} range={range} />
                ))}
              </Stack>
            </Tabs.Panel>
          ))}
          <Tabs.Panel value={RUNS}>
            <Runs />
          </Tabs.Panel>
        </Tabs>
      )}
    </>
  );
}
