import { Button, Group, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { EnabledBadge, RowMenu } from "@/features/alerts/Cells";
import { DeleteDialog, SwitchDialog } from "@/features/alerts/Dialogs";
import { alertsKey } from "@/api/alerts";
import { FIELDS } from "@/features/alerts/channelDraft";
import { REFRESH_MS, type Channel } from "@/features/alerts/queries";
import { TestDialog } from "@/features/alerts/TestDialog";
import { Instant } from "@/ui/measure/Instant";
import { useOfNow } from "@/ui/measure/useNow";
import { CreateButton } from "@/ui/menu/buttons";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/shared/Teach";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { Sent } from "@/ui/Sent";

const ChannelDialog = whenDrawn(async () => (await import("@/features/alerts/ChannelDialog")).ChannelDialog);

type Doing = { what: "edit" | "switch" | "delete" | "test"; row: Channel } | { what: "create" } | null;

/** Channels, and whether notifications arrived. Administrators see where a channel goes; no one sees its secrets. */
export function ChannelList() {
  const { t } = useTranslation("alerts");
  const may = useMay();
  const canChange = may("change_cluster");
  const [doing, setDoing] = useState<Doing>(null);
  const columns = useMemo(
    () =>
      defineColumns<Channel>(headers(t), (column) => [
        column("name", { sort: true, isFixed: true }, (row) => <b>{row.name}</b>),
        column("kind", { header: t("column.type"), sort: true }, (row) => t(`alert_pages:channel.kind.${row.kind}`)),
        column("is_enabled", { header: t("column.state"), sort: true }, (row) => (
          <EnabledBadge isOn={row.is_enabled} />
        )),
        column("where", { header: t("alert_pages:channel.where") }, (row) => (
          <span className="break">
            {row.origin ?? row.addresses?.join(", ") ?? t("alert_pages:channel.for_administrators")}
          </span>
        )),
        column("has_secret", { header: t("alert_pages:channel.signed") }, (row) =>
          !FIELDS[row.kind].includes("secret") ? "—" : t(row.has_secret ? "common:state.yes" : "common:state.no"),
        ),
        column(
          "last_success_at",
          { card: "fact", header: t("alert_pages:channel.last_success"), sort: true },
          (row) => <Instant at={row.last_success_at} relative />,
        ),
        column(
          "last_failure_at",
          { card: "fact", header: t("alert_pages:channel.last_failure"), sort: true },
          (row) => (
            <Stack gap={0}>
              <Instant at={row.last_failure_at} relative />
              {row.paused_until && <Paused until={row.paused_until} />}
              {row.last_error && (
                <Text size="xs" c="red" className="break">
                  <Sent text={row.last_error} />
                </Text>
              )}
            </Stack>
          ),
        ),
        canChange &&
          column("action", { card: "action" }, (row) => (
            <Group gap={4} wrap="nowrap">
              <Button
                size="compact-sm"
                variant="default"
                aria-label={t("alert_pages:channel.test_of", { name: row.name })}
                onClick={() => setDoing({ what: "test", row })}
              >
                {t("alert_pages:channel.test")}
              </Button>
              <RowMenu row={row} onDo={(what) => setDoing({ what, row })} />
            </Group>
          )),
      ]),
    [t, canChange],
  );
  const filters = useMemo<Filter[]>(() => [{ kind: "search", name: "search", label: t("filter.channels") }], [t]);
  const close = () => setDoing(null);
  return (
    <>
      <DataTable
        label={t("tab.channels")}
        queryKey={[...alertsKey, "channels"]}
        load={list("/api/v1/alert-channels/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="name"
        download="/api/v1/alert-channels/"
        refetchMs={REFRESH_MS}
        actions={
          canChange && (
            <CreateButton onClick={() => setDoing({ what: "create" })}>{t("alert_pages:channel.create")}</CreateButton>
          )
        }
        empty={<Teach title={t("alert_pages:empty.channels")}>{t("alert_pages:empty.channels_text")}</Teach>}
      />
      {doing?.what === "create" && <ChannelDialog channel={null} onClose={close} />}
      {doing?.what === "edit" && <ChannelDialog channel={doing.row} onClose={close} />}
      {doing?.what === "test" && <TestDialog channel={doing.row} onClose={close} />}
      {doing?.what === "switch" && <SwitchDialog kind="channel" row={doing.row} onClose={close} />}
      {doing?.what === "delete" && <DeleteDialog kind="channel" row={doing.row} onClose={close} />}
    </>
  );
}

/** A channel whose server asked for fewer messages. */
function Paused({ until }: { until: string }) {
  const { t } = useTranslation("alerts");
  const shown = useOfNow((now) => (Date.parse(until) > now ? until : null));
  if (!shown) return null;
  return (
    <Text size="xs" c="orange">
      {t("alert_pages:channel.paused")} <Instant at={until} />
    </Text>
  );
}
