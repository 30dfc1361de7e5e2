import { Alert, Badge, Group, List, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { firingOptions } from "@/api/alerts";
import { attention, hasRejecting, type Item } from "@/features/overview/attention";
import { Card } from "@/features/overview/Card";
import { Events } from "@/features/overview/Events";
import { brokerGroupsOptions, overviewOptions, type Overview } from "@/features/overview/queries";
import { measured, useLive, type Reading } from "@/live/useLive";
import { MarkedChart } from "@/shared/MarkedChart";
import { DrainTime } from "@/ui/measure/DrainTime";
import { LastHour, type Line } from "@/ui/measure/LastHour";
import { GroupLink } from "@/ui/links/links";
import { LinkTo, RouterLink } from "@/ui/links/LinkTo";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { Measured, type Format } from "@/ui/measure/Measured";
import { PageHeader } from "@/ui/page/PageHeader";
import { Loading, QueryProblem } from "@/ui/page/loaded";
import { useRuleName } from "@/shared/ruleNames";
import { Teach } from "@/shared/Teach";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

const FIRST_STEPS = ["qmq produce order.paid -p id=1", "qmq consume order.paid billing --count 1"];

/** The whole system at a glance: is all well, how much flows, who is behind. */
export default function OverviewPage() {
  const { t } = useTranslation("overview");
  const live = useLive("/ws/nodes/");
  const query = useQuery(overviewOptions());
  const { data } = query;
  const critical = useQuery({ ...firingOptions("critical"), enabled: Boolean(data?.alerts_firing.critical) });
  const warning = useQuery({ ...firingOptions("warning"), enabled: Boolean(data?.alerts_firing.warning) });
  const groups = useQuery({ ...brokerGroupsOptions(), enabled: hasRejecting(live.state) });
  const items = useMemo(() => {
    const firing = [...(critical.data?.results ?? []), ...(warning.data?.results ?? [])];
    return data ? attention(data, live.state, firing, groups.data?.results) : [];
  }, [data, live.state, critical.data, warning.data, groups.data]);
  const isLiveKnown = live.status.kind !== "connecting";
  const isChecked = useOnce(Boolean(data) && isLiveKnown && ![critical, warning, groups].some((one) => one.isLoading));
  return (
    <>
      <PageHeader title={t("title")} badges={<LiveBadge view={live} />} />
      <QueryProblem of={query} />
      {!isChecked && !query.error && <Loading label={t("title")} />}
      {data && isChecked && (
        <Stack>
          <Attention items={items} />
          <Numbers overview={data} />
          {data.subjects === 0 ? (
            <Teach title={t("empty.title")} commands={FIRST_STEPS}>
              {t("empty.text")}
            </Teach>
          ) : (
            <>
              <Flow />
              <SimpleGrid cols={{ base: 1, lg: 2 }}>
                <Worst overview={data} />
                <Events />
              </SimpleGrid>
            </>
          )}
        </Stack>
      )}
    </>
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

function Numbers({ overview }: { overview: Overview }) {
  const { t } = useTranslation("overview");
  const reason = overview.unmeasured_reason;
  const online = Object.entries(overview.broker_groups).reduce(
    (sum, [state, n]) => sum + (state === "offline" ? 0 : n),
    0,
  );
  const all = Object.values(overview.broker_groups).reduce((sum, n) => sum + n, 0);
  const { known } = overview;
  const missing = known?.missing;
  const tiles: (Reading & { id: string; as?: Format; to: string; more?: string })[] = [
    { id: "send_rate", value: overview.send_rate, atLeast: known?.send_rate, missing, as: "rate", to: "/subjects" },
    { id: "ack_rate", value: overview.ack_rate, atLeast: known?.ack_rate, missing, as: "rate", to: "/groups" },
    { id: "lag", value: overview.lag, atLeast: known?.lag, missing, as: "compact", to: "/groups" },
    {
      id: "subjects",
      value: overview.subjects,
      to: "/subjects",
      more: overview.subjects_moving ? t("moving", { count: overview.subjects_moving }) : "",
    },
    { id: "consumer_groups", value: overview.consumer_groups, to: "/groups" },
    { id: "broker_groups", value: online, to: "/brokers", more: t("of", { all }) },
  ];
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
      {tiles.map(({ id, as, to, more, ...reading }) => (
        <Paper key={id} withBorder p="sm" component={RouterLink} to={to} c="inherit" td="none" data-tile={id}>
          <Text size="xs" c="dimmed">
            {t(`tile.${id}`)}
          </Text>
          <Group gap={6} align="baseline">
            <Text size="xl" fw={700}>
              <Measured {...reading} as={as} reason={reason} />
            </Text>
            {more && (
              <Text size="xs" c="dimmed">
                {more}
              </Text>
            )}
          </Group>
        </Paper>
      ))}
    </SimpleGrid>
  );
}

const SYSTEM = {};
const FLOW: readonly (readonly Line[])[] = [
  [
    ["send_rate", "rate"],
    ["ack_rate", "rate", { colour: "teal" }],
    ["lag", "count", { axis: "right", style: "area", colour: "orange" }],
  ],
];

function Flow() {
  const { t } = useTranslation("overview");
  const labelOf = useCallback((field: string) => t(`tile.${field}`), [t]);
  return (
    <Card title={t("flow")}>
      <LastHour of={SYSTEM} charts={FLOW} labelOf={labelOf}>
        {(at, [series = []], isPending) => (
          <MarkedChart about={SYSTEM} label={t("flow")} at={at} series={series} height={240} isPending={isPending} />
        )}
      </LastHour>
    </Card>
  );
}

function Worst({ overview }: { overview: Overview }) {
  const { t } = useTranslation("overview");
  return (
    <Card title={t("worst")}>
      {overview.worst.length === 0 ? (
        <Text c="dimmed">{overview.unmeasured_reason ?? t("nobody_behind")}</Text>
      ) : (
        <PlainTable
          columns={defineColumns<Overview["worst"][number]>(
            (id) => t(id),
            (column) => [
              column("group", (row) => (
                <GroupLink subject={row.subject} group={row.group} size="sm">
                  {row.subject} · {row.group}
                </GroupLink>
              )),
              column("lag", { header: t("tile.lag"), align: "right" }, (row) => <Measured {...measured(row, "lag")} />),
              column("time_lag", { align: "right" }, (row) => (
                <Measured {...measured(row, "time_lag_seconds")} as="duration" />
              )),
              column("drain", { align: "right" }, (row) => <DrainTime numbers={row} />),
            ],
          )}
          rows={overview.worst}
          rowKey={(row) => `${row.subject} ${row.group}`}
        />
      )}
    </Card>
  );
}

/** One sentence when all is well, else what needs attention, worst first, each a way to it. */
function Attention({ items }: { items: readonly Item[] }) {
  const { t } = useTranslation("overview");
  const ruleName = useRuleName();
  if (items.length === 0) {
    return (
      <Alert color="teal" icon={<IconCircleCheck aria-hidden />} title={t("well")} data-attention="0">
        {t("well_text")}
      </Alert>
    );
  }
  return (
    <Card title={t("needs", { count: items.length })} data-attention={items.length}>
      <List listStyleType="none" spacing={6}>
        {items.map((item) => (
          <List.Item key={`${item.text} ${JSON.stringify(item.values)}`}>
            <Group gap="xs" wrap="nowrap" align="baseline">
              <Badge color={item.level === "critical" ? "red" : "yellow"} variant="light">
                {t(`level.${item.level}`)}
              </Badge>
              <LinkTo {...item.target} c="inherit">
                {item.text === "alert"
                  ? `${ruleName(String(item.values.rule))} · ${item.values.target}`
                  : t(`attention.${item.text}`, item.values)}
              </LinkTo>
            </Group>
          </List.Item>
        ))}
      </List>
    </Card>
  );
}
