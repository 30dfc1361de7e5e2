import { Alert, Badge, Center, Group, List, Loader, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { attention, type Item } from "@/features/overview/attention";
import { Events } from "@/features/overview/Events";
import { overviewOptions, systemHistoryOptions, type History, type Overview } from "@/features/overview/queries";
import { useLive, type Reading } from "@/live/useLive";
import { TimeChart, type Series } from "@/ui/chart/TimeChart";
import { GroupLink } from "@/ui/links";
import { LinkTo, RouterLink } from "@/ui/LinkTo";
import { LiveBadge } from "@/ui/LiveBadge";
import { Measured, type Format } from "@/ui/Measured";
import { PageHeader } from "@/ui/PageHeader";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { Teach } from "@/ui/Teach";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

const FIRST_STEPS = ["qmq produce order.paid -p id=1", "qmq consume order.paid billing --count 1"];

/** The whole system at a glance: is all well, how much flows, who is behind. */
export default function OverviewPage() {
  const { t } = useTranslation("overview");
  const live = useLive("/ws/nodes/");
  const { data, error, refetch } = useQuery(overviewOptions());
  const items = useMemo(() => (data ? attention(data, live.state) : []), [data, live.state]);
  return (
    <>
      <PageHeader title={t("title")} badges={<LiveBadge view={live} />} />
      {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
      {!data && !error && (
        <Center p="xl">
          <Loader aria-label={t("title")} />
        </Center>
      )}
      {data && (
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

function Flow() {
  const { t } = useTranslation("overview");
  const { data, error, refetch } = useQuery(systemHistoryOptions());
  return (
    <Paper withBorder p="md">
      <Text component="h2" fw={600} mb="xs">
        {t("flow")}
      </Text>
      {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
      {data?.reason && <Text c="dimmed">{data.reason}</Text>}
      {!data?.reason && !error && <FlowChart history={data} />}
    </Paper>
  );
}

function FlowChart({ history }: { history: History | undefined }) {
  const { t } = useTranslation("overview");
  const at = useMemo(() => (history?.at ?? []).map((instant) => Date.parse(instant) / 1000), [history?.at]);
  const series = useMemo<Series[]>(() => {
    const unknown = history?.at.map(() => null) ?? [];
    const of = (field: string) => history?.fields[field] ?? unknown;
    return [
      { label: t("tile.send_rate"), values: of("send_rate"), as: "rate" },
      { label: t("tile.ack_rate"), values: of("ack_rate"), as: "rate", colour: "teal" },
      { label: t("tile.lag"), values: of("lag"), as: "count", axis: "right", style: "area", colour: "orange" },
    ];
  }, [history, t]);
  return <TimeChart label={t("flow")} at={at} series={series} height={240} isPending={!history} />;
}

function Worst({ overview }: { overview: Overview }) {
  const { t } = useTranslation("overview");
  return (
    <Paper withBorder p="md">
      <Text component="h2" fw={600} mb="xs">
        {t("worst")}
      </Text>
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
              column("lag", { header: t("tile.lag"), align: "right" }, (row) => (
                <Measured value={row.lag} reason={row.reason} />
              )),
              column("time_lag", { align: "right" }, (row) => (
                <Measured value={row.time_lag_seconds} as="duration" reason={row.reason} />
              )),
              column("drain", { align: "right" }, (row) => (
                <Measured
                  value={row.drain_seconds}
                  as="duration"
                  reason={row.reason}
                  unknown={row.is_draining === false ? t("never") : undefined}
                />
              )),
            ],
          )}
          rows={overview.worst}
          rowKey={(row) => `${row.subject} ${row.group}`}
        />
      )}
    </Paper>
  );
}

/** One sentence when all is well, else what needs attention, worst first, each a way to it. */
function Attention({ items }: { items: readonly Item[] }) {
  const { t } = useTranslation("overview");
  if (items.length === 0) {
    return (
      <Alert color="teal" icon={<IconCircleCheck aria-hidden />} title={t("well")} data-attention="0">
        {t("well_text")}
      </Alert>
    );
  }
  return (
    <Paper withBorder p="md" data-attention={items.length}>
      <Text component="h2" fw={600} size="md" mb="xs">
        {t("needs", { count: items.length })}
      </Text>
      <List listStyleType="none" spacing={6}>
        {items.map((item) => (
          <List.Item key={`${item.text} ${JSON.stringify(item.values)}`}>
            <Group gap="xs" wrap="nowrap" align="baseline">
              <Badge color={item.level === "critical" ? "red" : "yellow"} variant="light">
                {t(`level.${item.level}`)}
              </Badge>
              <LinkTo {...item.target} c="inherit">
                {t(`attention.${item.text}`, item.values)}
              </LinkTo>
            </Group>
          </List.Item>
        ))}
      </List>
    </Paper>
  );
}
