import { Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { placeOptions } from "@/api/owner";
import { useMessageColumns } from "@/features/messages/columns";
import { loadMessages, messagesKey } from "@/features/messages/queries";
import { StartPicker } from "@/features/messages/StartPicker";
import { orderOf, startOf } from "@/features/messages/starts";
import { DataTable } from "@/ui/table/DataTable";
import { choice } from "@/ui/table/define";
import type { Filter, ListQuery, Selection } from "@/ui/table/types";
import { shellWord } from "@/shared/clientLines";
import { Teach } from "@/shared/Teach";
import { placeKey } from "@/ui/message/place";
import { useUrlState } from "@/ui/links/urlState";
import type { ListedMessage } from "@/features/messages/Says";

const FIRST_MESSAGE = (subject: string) => `qmq produce ${shellWord(subject)} -p id=1 -p data='{"total": 12.5}'`;

interface Props {
  subject: string;
  selection: Selection<ListedMessage> | undefined;
  onRows: (keys: readonly string[]) => void;
  /** What chooses another view, and what can be done. */
  lead: ReactNode;
  actions: ReactNode;
}

/** Stored messages by the time they were stored, over all broker groups or in one, the newest first. */
export function Browse({ subject, selection, onRows, lead, actions }: Props) {
  const { t } = useTranslation("messages");
  const [search, change] = useUrlState();
  const start = startOf(search);
  const { data: place } = useQuery(placeOptions(subject));
  const groups = useMemo(() => place?.brokerGroups ?? [], [place]);
  const filters = useMemo<Filter[]>(() => {
    const group: Filter = choice("broker_group", t("filter.broker_group"), groups, (name) => name);
    if (start === "id") return [{ kind: "search", name: "message_id", label: t("filter.message_id") }, group];
    if (start === "sequence") return [{ kind: "text", name: "sequence", label: t("filter.sequence") }, group];
    if (start === "time")
      return [{ kind: "instant", name: "from_time", label: t("filter.from"), direction: "past" }, group];
    return groups.length > 1 ? [group] : [];
  }, [t, start, groups]);
  const order = orderOf(start);
  const load = useCallback(
    (query: ListQuery, signal: AbortSignal) => loadMessages(subject, { ...query, order }, signal),
    [subject, order],
  );
  const open = useCallback(
    (key: string) => change({ message: key }, search.message === undefined),
    [change, search.message],
  );
  const columns = useMessageColumns(open);
  return (
    <DataTable
      label={t("tab.messages")}
      queryKey={[...messagesKey(subject), start]}
      load={load}
      columns={columns}
      filters={filters}
      rowKey={placeKey}
      selection={selection}
      opening={{ onOpen: open, opened: search.message }}
      onRows={onRows}
      download={`/api/v1/subjects/${encodeURIComponent(subject)}/messages/${order ? `?order=${order}` : ""}`}
      refetchOnFocus={false}
      lead={
        <Group gap="xs">
          {lead}
          <StartPicker start={start} groups={groups} />
        </Group>
      }
      actions={actions}
      empty={
        <Teach title={t("empty.title")} commands={[FIRST_MESSAGE(subject)]}>
          {t("empty.text")}
        </Teach>
      }
    />
  );
}
