import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { ChannelDialog } from "@/features/alerts/ChannelDialog";
import {
  alertsKey,
  changeChannel,
  deleteChannel,
  loadChannels,
  REFRESH_MS,
  type Channel,
} from "@/features/alerts/queries";
import { RowMenu } from "@/features/alerts/RowMenu";
import { TestDialog } from "@/features/alerts/TestDialog";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";

type Doing = { what: "edit" | "switch" | "delete" | "test"; channel: Channel } | { what: "create" } | null;

/** Who is told, and whether that went well. Where a channel goes is shown to administrators, its secrets to nobody. */
export function ChannelList() {
  const { t } = useTranslation("alerts");
  const may = useMay();
  const canChange = may("change_cluster");
  const [doing, setDoing] = useState<Doing>(null);
  const columns = useMemo(
    () =>
      defineColumns<Channel>(headers(t), (column) => [
        column("name", { sort: true, isFixed: true }, (row) => <b>{row.name}</b>),
        column("kind", { header: t("column.type"), sort: true }, (row) => t(`channel.kind.${row.kind}`)),
        column("is_enabled", { header: t("column.state"), sort: true }, (row) => (
          <Badge color={row.is_enabled ? "teal" : "gray"} variant="light">
            {t(row.is_enabled ? "on" : "off")}
          </Badge>
        )),
        column("where", { header: t("channel.where") }, (row) => (
          <span className="break">{row.origin ?? row.addresses?.join(", ") ?? t("channel.for_administrators")}</span>
        )),
        column("has_secret", { header: t("channel.signed") }, (row) =>
          row.kind === "email" ? "—" : t(row.has_secret ? "common:state.yes" : "common:state.no"),
        ),
        column("last_success_at", { header: t("channel.last_success"), sort: true }, (row) => (
          <Instant at={row.last_success_at} relative />
        )),
        column("last_failure_at", { header: t("channel.last_failure"), sort: true }, (row) => (
          <Stack gap={0}>
            <Instant at={row.last_failure_at} relative />
            {row.last_error && (
              <Text size="xs" c="red" className="break">
                {row.last_error}
              </Text>
            )}
          </Stack>
        )),
        canChange &&
          column("action", (row) => (
            <Group gap={4} wrap="nowrap">
              <Button
                size="compact-sm"
                variant="default"
                aria-label={t("channel.test_of", { name: row.name })}
                onClick={() => setDoing({ what: "test", channel: row })}
              >
                {t("channel.test")}
              </Button>
              <RowMenu
                name={row.name}
                items={[
                  { label: t("common:action.edit"), run: () => setDoing({ what: "edit", channel: row }) },
                  {
                    label: t(row.is_enabled ? "disable" : "enable"),
                    run: () => setDoing({ what: "switch", channel: row }),
                  },
                  {
                    label: t("common:action.delete"),
                    isDangerous: true,
                    run: () => setDoing({ what: "delete", channel: row }),
                  },
                ]}
              />
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
        load={loadChannels}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="name"
        download="/api/v1/alert-channels/"
        refetchMs={REFRESH_MS}
        actions={
          canChange && (
            <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setDoing({ what: "create" })}>
              {t("channel.create")}
            </Button>
          )
        }
        empty={<Teach title={t("empty.channels")}>{t("empty.channels_text")}</Teach>}
      />
      {doing?.what === "create" && <ChannelDialog channel={null} onClose={close} />}
      {doing?.what === "edit" && <ChannelDialog channel={doing.channel} onClose={close} />}
      {doing?.what === "test" && <TestDialog channel={doing.channel} onClose={close} />}
      {doing?.what === "switch" && <Switch channel={doing.channel} onClose={close} />}
      {doing?.what === "delete" && <Delete channel={doing.channel} onClose={close} />}
    </>
  );
}

function Switch({ channel, onClose }: { channel: Channel; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  const isOn = !channel.is_enabled;
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t(isOn ? "channel.enable" : "channel.disable", { name: channel.name })}
      confirmName={isOn ? undefined : channel.name}
      actionLabel={t(isOn ? "enable" : "disable")}
      doneMessage={t(isOn ? "channel.enabled" : "channel.disabled", { name: channel.name })}
      run={(attempt) => changeChannel(channel, { is_enabled: isOn }, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}

function Delete({ channel, onClose }: { channel: Channel; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t("channel.delete", { name: channel.name })}
      confirmName={channel.name}
      actionLabel={t("common:action.delete")}
      doneMessage={t("channel.deleted", { name: channel.name })}
      reasonField={false}
      run={(attempt) => deleteChannel(channel, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}
