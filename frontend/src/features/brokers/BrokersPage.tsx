import { Button, Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { groupViews } from "@/features/brokers/topology/cluster";
import { columnsOf } from "@/features/brokers/columns";
import { topologyOptions, brokersKey } from "@/features/brokers/queries";
import { Rehearse } from "@/features/brokers/rehearse/Rehearse";
import { firstNode } from "@/features/brokers/actions/startCommand";
import { CreateButton } from "@/ui/menu/buttons";
import { Topology } from "@/features/brokers/topology/Topology";
import { useLive } from "@/live/useLive";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { useUrlState } from "@/ui/links/urlState";
import { PageHeader } from "@/ui/page/PageHeader";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { DataTable } from "@/ui/table/DataTable";
import { choice } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach, useClientAddress } from "@/shared/Teach";
import { whenOpened } from "@/ui/dialog/whenOpened";

const AddGroup = whenOpened(async () => (await import("@/features/brokers/actions/AddGroup")).AddGroup);

/** The cluster at work: drawn, and as a list. */
export default function BrokersPage() {
  const { t } = useTranslation("brokers");
  const address = useClientAddress();
  const may = useMay();
  const [, setAddress] = useUrlState();
  const [isAdding, setAdding] = useState(false);
  const columns = useMemo(() => columnsOf(t), [t]);
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      choice("kind", t("column.kind"), ["broker", "delay"], (value) => t(`kind.${value}`)),
      choice("reported_state", t("column.state"), ["read_write", "read_only", "write_only", "offline"], (value) =>
        t(`verdict.${value}`),
      ),
      choice("operator_state", t("filter.decided"), ["unapproved", "normal", "read_only", "draining"], (value) =>
        t(`decided.${value}`),
      ),
    ],
    [t],
  );
  return (
    <>
      <PageHeader
        title={t("title")}
        badges={<Live />}
        actions={
          may("change_cluster") && (
            <>
              <Button variant="default" onClick={() => setAddress({ rehearse: "choose" })} data-do="rehearse">
                {t("rehearse.open")}
              </Button>
              <CreateButton onClick={() => setAdding(true)}>{t("add.open")}</CreateButton>
            </>
          )
        }
      />
      <Rehearse />
      <Stack gap="lg">
        <Drawing />
        <DataTable
          label={t("title")}
          queryKey={[...brokersKey, "list"]}
          load={list("/api/v1/broker-groups/")}
          columns={columns}
          filters={filters}
          rowKey={(row) => row.name}
          ordering="name"
          download="/api/v1/broker-groups/"
          refetchMs={10_000}
          empty={
            <Teach title={t("empty.title")} code={firstNode("broker", "g1", address)}>
              {t("empty.text")}
            </Teach>
          }
        />
      </Stack>
      <AddGroup opened={isAdding} onClose={() => setAdding(false)} />
    </>
  );
}

/** By itself, as the drawing: the rest of the page is not drawn again each second. */
function Live() {
  return <LiveBadge view={useLive("/ws/nodes/")} />;
}

function Drawing() {
  const { state } = useLive("/ws/nodes/");
  const { data, error, isPending, refetch } = useQuery(topologyOptions());
  const groups = useMemo(() => groupViews(data?.results ?? [], state), [data, state]);
  return (
    <>
      {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
      {isPending && groups.length === 0 && <Skeleton height={260} />}
      {groups.length > 0 && <Topology groups={groups} metaservers={state.metaservers} />}
    </>
  );
}
