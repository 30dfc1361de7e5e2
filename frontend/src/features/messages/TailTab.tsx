import "@/features/messages/messages.css";
import { Badge, Button, Group, Select, Stack, Text } from "@mantine/core";
import { IconClearAll, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useCallback, useEffect, useReducer, useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { MessageDrawer } from "@/features/messages/MessageDrawer";
import { KEPT, NO_TAIL, rowKey, tailAfter } from "@/features/messages/tail";
import { TailRows } from "@/features/messages/TailRows";
import { count } from "@/format/numbers";
import { Connection, socketUrl, type LiveStatus } from "@/live/feed";
import { FilterField } from "@/shared/filters/FilterField";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { IconButton } from "@/ui/menu/buttons";
import { useLanguage } from "@/ui/preferences";
import { Unreachable } from "@/ui/measure/Unreachable";
import { useUrlState } from "@/ui/links/urlState";

/** Messages as they arrive. It shows what comes while it is open; what is stored already is the messages tab's. */
export default function TailTab({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  const [search, change] = useUrlState();
  const kept = KEPT.find((size) => size === search.keep) ?? KEPT[1];
  const filter = search.filter ?? "";
  const { status, view, pause, resume, clear } = useTail(subject, filter, Number(kept));
  const { rows } = view;
  const open = useCallback(
    (key: string) => change({ message: key }, search.message === undefined),
    [change, search.message],
  );
  const keys = rows.flatMap((row) => (row.kind === "gap" ? [] : [rowKey(row)]));
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
        <Group gap="xs" className="tail-tools" justify="flex-end">
          <FilterField
            subject={subject}
            value={filter}
            onApply={(next) => change({ filter: next || undefined })}
            error={filter && status.kind === "refused" ? status.reason : undefined}
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
          <IconButton icon={IconClearAll} label={t("tail.clear")} onClick={clear} />
        </Group>
      </Group>
      <Unreachable of={view.unknown} />
      <Text size="sm" c="dimmed" data-left-out={view.leftOut}>
        {t("tail.sums", { shown: count(rows.length, language), arrived: count(view.arrived, language) })}
        {view.leftOut > 0 &&
          ` · ${t(filter ? "tail.not_searched" : "tail.left_out", { count: view.leftOut, shown: count(view.leftOut, language) })}`}
      </Text>
      <TailRows
        rows={rows}
        onOpen={open}
        isFiltered={filter !== ""}
        isLive={status.kind === "live"}
        subject={subject}
      />
      <MessageDrawer subject={subject} keys={keys} />
    </Stack>
  );
}

/** The tail of a subject while the component is shown, of what matches the filter; at most `keep` rows. */
function useTail(subject: string, filter: string, keep: number) {
  const [status, setStatus] = useState<LiveStatus>({ kind: "connecting" });
  const [view, take] = useReducer(tailAfter, NO_TAIL);
  const latestKeep = useRef(keep);
  useEffect(() => {
    latestKeep.current = keep;
  });
  useEffect(() => {
    take({ kind: "begin" });
    const wanted = new URLSearchParams(filter ? { subject, filter } : { subject });
    const connection = new Connection(
      socketUrl(`/ws/tail/?${wanted.toString()}`),
      (message) => take({ kind: "heard", message, keep: latestKeep.current }),
      setStatus,
    );
    return () => connection.close();
  }, [subject, filter]);
  return {
    status,
    view,
    pause: () => take({ kind: "pause" }),
    resume: () => take({ kind: "resume", keep }),
    clear: () => take({ kind: "clear" }),
  };
}
