import "@/features/overview/overview.css";
import { Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { firingOptions } from "@/api/alerts";
import { attention, hasRejecting, type Item } from "@/features/overview/attention";
import { Card } from "@/features/overview/Card";
import { Events } from "@/features/overview/Events";
import { FiringAlerts } from "@/features/overview/FiringAlerts";
import { HighestLag } from "@/features/overview/HighestLag";
import { Issues } from "@/features/overview/Issues";
import { Numbers } from "@/features/overview/Numbers";
import { brokerGroupsOptions, overviewOptions } from "@/features/overview/queries";
import { useFreshAlerts } from "@/features/overview/useFreshAlerts";
import { Verdict } from "@/features/overview/Verdict";
import { useLive } from "@/live/useLive";
import { Teach } from "@/shared/Teach";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { Loading, QueryProblem } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";

const FIRST_STEPS = ["qmq produce order.paid -p id=1", "qmq consume order.paid billing --count 1"];

const FlowPicture = lazy(() => import("@/features/overview/flow/FlowPicture"));

/** The whole system at a glance: is all well, what fires, how much flows from where to where, who is behind. */
export default function OverviewPage() {
  const { t } = useTranslation("overview");
  const live = useLive("/ws/nodes/");
  useFreshAlerts(live.state);
  const query = useQuery(overviewOptions());
  const { data } = query;
  const firing = useQuery(firingOptions());
  const groups = useQuery({ ...brokerGroupsOptions(), enabled: hasRejecting(live.state) });
  const items = useMemo(
    () => (data ? attention(data, live.state, groups.data?.results) : []),
    [data, live.state, groups.data],
  );
  const isLiveKnown = live.status.kind !== "connecting";
  const isChecked = useOnce(Boolean(data) && isLiveKnown && ![firing, groups].some((one) => one.isLoading));
  const alerts = firing.data?.results ?? [];
  return (
    <>
      <PageHeader
        title={t("title")}
        badges={
          <>
            <LiveBadge view={live} />
            {data && isChecked && <Verdict items={items} firing={data.alerts_firing} />}
          </>
        }
      />
      <QueryProblem of={query} />
      {!isChecked && !query.error && <Loading label={t("title")} />}
      {data && isChecked && (
        <Stack gap="sm">
          <Numbers overview={data} />
          {data.subjects === 0 ? (
            <>
              <Attention items={items} alerts={alerts} firing={data.alerts_firing} />
              <Teach title={t("empty.title")} commands={FIRST_STEPS}>
                {t("empty.text")}
              </Teach>
            </>
          ) : (
            <div className="overview">
              <Stack gap="sm" miw={0}>
                <Attention items={items} alerts={alerts} firing={data.alerts_firing} />
                <Card title={t("flow.title")}>
                  <Suspense fallback={<Skeleton height={280} />}>
                    <FlowPicture />
                  </Suspense>
                </Card>
              </Stack>
              <Stack gap="sm" miw={0}>
                <HighestLag overview={data} />
                <Events />
              </Stack>
            </div>
          )}
        </Stack>
      )}
    </>
  );
}

/** What needs attention in one card: issues, and the alerts that fire. */
function Attention({ items, alerts, firing }: { items: readonly Item[] } & Parameters<typeof FiringAlerts>[0]) {
  const { t } = useTranslation("overview");
  if (items.length === 0 && alerts.length === 0) return null;
  return (
    <Card title={t("alerts_and_issues")}>
      <Issues items={items} />
      <FiringAlerts alerts={alerts} firing={firing} />
    </Card>
  );
}

/**
 * Whether this was ever so. What needs attention is complete once the nodes' state and the alerts were read: before,
 * the page would say that all is well, and then move down what it shows below.
 */
function useOnce(isSo: boolean): boolean {
  const [wasSo, setWasSo] = useState(isSo);
  if (isSo && !wasSo) setWasSo(true);
  return isSo || wasSo;
}
