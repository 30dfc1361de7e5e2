import { ActionIcon, Badge, Button, Group, Select, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { IconClearAll, IconFilter, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useCallback } from "react";
import { useTranslation } from "react-i18next";
import { MessageDrawer } from "@/features/messages/MessageDrawer";
import { isShown, KEPT } from "@/features/messages/tail";
import { TailRows } from "@/features/messages/TailRows";
import { useTail } from "@/features/messages/useTail";
import { count } from "@/format/numbers";
import { LiveBadge } from "@/ui/LiveBadge";
import { useLanguage } from "@/ui/preferences";
import { Unreachable } from "@/ui/Unreachable";
import { useUrlState } from "@/ui/urlState";

/** Messages as they arrive. It shows what comes while it is open; what is stored already is the messages tab's. */
export default function TailTab({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  const [search, change] = useUrlState();
  const kept = KEPT.find((size) => size === search.keep) ?? KEPT[1];
  const { status, view, pause, resume, clear } = useTail(subject, Number(kept));
  const filter = search.filter ?? "";
  const rows = view.rows.filter((row) => isShown(row, filter));
  const open = useCallback((key: string) => change({ message: key }, true), [change]);
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <LiveBadge view={{ status, at: null }} />
          <Button
            size="sm"
            variant="default"
            leftSection={
              view.isPaused ? <IconPlayerPlay size={16} aria-hidden /> : <IconPlayerPause size={16} aria-hidden />
            }
            onClick={view.isPaused ? resume : pause}
            data-paused={view.isPaused}
          >
            {t(view.isPaused ? "tail.resume" : "tail.pause")}
          </Button>
          {view.isPaused && (
            <Badge variant="light" tt="none" role="status">
              {t("tail.waiting", { shown: count(view.waiting.length, language) })}
            </Badge>
          )}
        </Group>
        <Group gap="xs">
          <TextInput
            size="sm"
            aria-label={t("tail.filter")}
            placeholder={t("tail.filter")}
            leftSection={<IconFilter size={16} aria-hidden />}
            value={filter}
            onChange={(event) => change({ filter: event.currentTarget.value })}
          />
          <Select
            size="sm"
            w={130}
            aria-label={t("tail.keep")}
            allowDeselect={false}
            value={kept}
            onChange={(size) => change({ keep: size ?? undefined })}
            data={KEPT.map((size) => ({ value: size, label: t("tail.rows", { size }) }))}
          />
          <Tooltip label={t("tail.clear")}>
            <ActionIcon variant="default" size="lg" aria-label={t("tail.clear")} onClick={clear}>
              <IconClearAll size={18} aria-hidden />
            </ActionIcon>
          </Tooltip>
        </Group>
      </Group>
      <Unreachable of={view.unknown} />
      <Text size="sm" c="dimmed" data-left-out={view.leftOut}>
        {t("tail.sums", { shown: count(rows.length, language), arrived: count(view.arrived, language) })}
        {view.leftOut > 0 && ` · ${t("tail.left_out", { shown: count(view.leftOut, language) })}`}
      </Text>
      <TailRows
        rows={rows}
        onOpen={open}
        isFiltered={filter !== ""}
        isLive={status.kind === "live"}
        subject={subject}
      />
      <MessageDrawer subject={subject} />
    </Stack>
  );
}
