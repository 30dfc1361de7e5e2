import { useTranslation } from "@/i18n/useTranslation";
import type { Message } from "@/features/trace/queries";
import { withRecent, type Place } from "@/features/trace/recent";
import { LinkTo } from "@/ui/links/LinkTo";
import { useUrlState } from "@/ui/links/urlState";
import { Instant } from "@/ui/measure/Instant";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

type Row = Message & { subject: string };

/** Messages that were found, each with the way to its trace; `hasSubject`: they are of several subjects. */
export function FoundTable({ messages, hasSubject = false }: { messages: readonly Row[]; hasSubject?: boolean }) {
  const { t } = useTranslation("trace");
  return (
    <PlainTable
      label={t("find.found")}
      withTableBorder
      minWidth={480}
      columns={defineColumns<Row>(
        (id) => t(`step.${id}`),
        (column) => [
          hasSubject && column("subject", { header: t("find.subject") }, (row) => row.subject),
          column("place", { header: t("find.place") }, ({ subject, broker_group: brokerGroup, sequence }) => (
            <ToTrace place={{ subject, brokerGroup, sequence }}>{`${brokerGroup} · ${sequence}`}</ToTrace>
          )),
          column("stored", (row) => <Instant at={row.stored_at} withMillis />),
          column("created", (row) => <Instant at={row.created_at} withMillis />),
        ],
      )}
      rows={messages}
      rowKey={(row) => `${row.subject} ${row.broker_group}:${row.sequence}`}
    />
  );
}

/** The trace of a message; those viewed before go with the address. */
export function ToTrace({ place, children }: { place: Place; children: string }) {
  const [{ recent }] = useUrlState();
  return (
    <LinkTo
      inherit
      className="break"
      to="/trace/$subject/$brokerGroup/$sequence"
      params={place}
      search={{ recent: withRecent(recent, place) }}
    >
      {children}
    </LinkTo>
  );
}
