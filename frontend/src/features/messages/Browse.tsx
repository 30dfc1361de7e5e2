import { SegmentedControl } from "@mantine/core";
import { IconClock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { placeOptions } from "@/api/owner";
import { useMessageColumns } from "@/features/messages/columns";
import { loadMessages, messagesKey } from "@/features/messages/queries";
import { DataTable } from "@/ui/table/DataTable";
import { choice } from "@/ui/table/define";
import type { Filter, ListQuery } from "@/ui/table/types";
import { shellWord } from "@/shared/clientLines";
import { MenuButton } from "@/ui/menu/MenuButton";
import { Teach } from "@/shared/Teach";
import { placeKey } from "@/ui/message/place";
import { useUrlState } from "@/ui/links/urlState";

const STARTS = ["time", "sequence", "id"] as const;
type Start = (typeof STARTS)[number];

/** Minutes back from now that a click goes to. */
const BACK_MINUTES = [5, 60, 24 * 60] as const;

const FIRST_MESSAGE = (subject: string) => `qmq produce ${shellWord(subject)} -p id=1 -p data='{"total": 12.5}'`;

/**
 * Stored messages by the time they were stored, over all broker groups or in one: from a time, a sequence, or with an
 * id.
 */
export function Browse({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const [search, change] = useUrlState();
  const start: Start = STARTS.find((one) => one === search.by) ?? "time";
  const { data: place } = useQuery(placeOptions(subject));
  const groups = useMemo(() => place?.brokerGroups ?? [], [place]);
  const filters = useMemo<Filter[]>(() => {
    const group: Filter = choice("broker_group", t("filter.broker_group"), groups, (name) => name);
    if (start === "id") return [{ kind: "search", name: "message_id", label: t("filter.message_id") }, group];
    if (start === "sequence") return [group, { kind: "text", name: "sequence", label: t("filter.sequence") }];
    return [{ kind: "instant", name: "from_time", label: t("filter.from"), direction: "past" }, group];
  }, [t, start, groups]);
  const load = useCallback((query: ListQuery, signal: AbortSignal) => loadMessages(subject, query, signal), [subject]);
  const open = useCallback((key: string) => change({ message: key }, true), [change]);
  const columns = useMessageColumns(open);
  const goTo = (next: Start) =>
    change({
      by: next,
      from_time: undefined,
      sequence: undefined,
      message_id: undefined,
      cursor: undefined,
      // Each broker group counts its own sequences: where there is one only it is meant.
      broker_group: next === "sequence" ? (search.broker_group ?? groups[0]) : search.broker_group,
    });
  return (
    <DataTable
      label={t("tab.messages")}
      queryKey={messagesKey(subject)}
      load={load}
      columns={columns}
      filters={filters}
      rowKey={placeKey}
      download={`/api/v1/subjects/${encodeURIComponent(subject)}/messages/`}
      refetchOnFocus={false}
      actions={
        <>
          <SegmentedControl
            size="sm"
            aria-label={t("by.label")}
            value={start}
            onChange={(next) => goTo(next)}
            data={STARTS.map((value) => ({ value, label: t(`by.${value}`) }))}
          />
          {start === "time" && (
            <MenuButton
              withText
              label={t("back.open")}
              icon={<IconClock size={16} aria-hidden />}
              entries={[
                ...BACK_MINUTES.map((minutes) => ({
                  label: t(`back.${minutes}`),
                  onClick: () =>
                    change({ from_time: new Date(Date.now() - minutes * 60_000).toISOString(), cursor: undefined }),
                })),
                { label: t("back.all"), onClick: () => change({ from_time: undefined, cursor: undefined }) },
              ]}
            />
          )}
        </>
      }
      empty={
        <Teach title={t("empty.title")} commands={[FIRST_MESSAGE(subject)]}>
          {t("empty.text")}
        </Teach>
      }
    />
  );
}
