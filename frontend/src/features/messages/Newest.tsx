import { Group, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { newestOptions, type Message } from "@/features/messages/queries";
import { Says } from "@/features/messages/Says";
import { LinkTo } from "@/ui/links/LinkTo";
import { Instant } from "@/ui/measure/Instant";
import { Unreachable } from "@/ui/measure/Unreachable";
import { TextButton } from "@/ui/menu/buttons";
import { placeKey } from "@/ui/message/place";
import { loaded } from "@/ui/page/loaded";
import { defineColumns, headers } from "@/ui/table/define";
import { PlainTable } from "@/ui/table/PlainTable";

/** The newest messages of a subject, the beginning of each in a line; the tab has all of them. */
export default function Newest({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const query = useQuery(newestOptions(subject));
  const [data, instead] = loaded(query, <Skeleton height={220} />);
  if (!data) return instead;
  const tab = { to: "/subjects/$subject", params: { subject } } as const;
  return (
    <>
      <Unreachable of={data.unreachable} />
      {data.results.length === 0 ? (
        <Text c="dimmed">{t("newest.empty")}</Text>
      ) : (
        <PlainTable<Message>
          isDense
          minWidth={320}
          label={t("tab.messages")}
          columns={defineColumns<Message>(headers(t), (column) => [
            column("stored_at", {}, (row) => (
              <LinkTo inherit className="nowrap" {...tab} search={{ tab: "messages", message: placeKey(row) }}>
                <Instant at={row.stored_at} relative />
                <span className="sr-only"> {t("one.open", { place: placeKey(row) })}</span>
              </LinkTo>
            )),
            column("says", {}, (row) => <Says message={row} />),
          ])}
          rows={data.results}
          rowKey={placeKey}
        />
      )}
      <Group gap="md">
        <LinkTo {...tab} search={{ tab: "messages" }} size="sm">
          {t("newest.all")}
        </LinkTo>
        <TextButton onClick={() => void query.refetch()}>{t("newest.refresh")}</TextButton>
      </Group>
    </>
  );
}
