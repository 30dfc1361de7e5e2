import { List, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { FindForm } from "@/features/trace/FindForm";
import { findOptions } from "@/features/trace/queries";
import { recentOf, withRecent, type Place } from "@/features/trace/recent";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { PageHeader } from "@/ui/PageHeader";
import { Part } from "@/ui/Part";
import { Teach } from "@/ui/Teach";
import { Unreachable } from "@/ui/Unreachable";
import { loaded } from "@/ui/loaded";
import { useUrlState } from "@/ui/urlState";

const RECEIPT = `receipt = await producer.send("order.paid", b"{}")
print(receipt.message_id)`;

/** Find a message by its id, or go to it by its place; those looked at before are below. */
export default function FindPage() {
  const { t } = useTranslation("trace");
  const [search, change] = useUrlState();
  const subject = search.subject ?? "";
  const messageId = search.message_id ?? "";
  const recent = recentOf(search.recent);
  const isAsked = subject !== "" && messageId !== "";
  return (
    <>
      <PageHeader title={t("common:nav.trace")} description={t("find.description")} />
      <Stack gap="lg">
        <FindForm
          key={`${subject} ${messageId}`}
          subject={subject}
          messageId={messageId}
          onFind={(next) => change({ subject: next.subject, message_id: next.messageId }, true)}
          recent={search.recent}
        />
        {isAsked && <Results subject={subject} messageId={messageId} />}
        {recent.length > 0 && (
          <Part title={t("recent")}>
            <List>
              {recent.map((place) => (
                <List.Item key={`${place.subject}/${place.brokerGroup}/${place.sequence}`}>
                  <To place={place} recent={search.recent}>
                    {`${place.subject} · ${place.brokerGroup} · ${place.sequence}`}
                  </To>
                </List.Item>
              ))}
            </List>
          </Part>
        )}
        {!isAsked && recent.length === 0 && (
          <Teach title={t("teach.title")} code={RECEIPT}>
            {t("teach.text")}
          </Teach>
        )}
      </Stack>
    </>
  );
}

function To({ place, recent, children }: { place: Place; recent: string | undefined; children: string }) {
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

function Results({ subject, messageId }: { subject: string; messageId: string }) {
  const { t } = useTranslation("trace");
  const [search] = useUrlState();
  const [data, instead] = loaded(useQuery(findOptions(subject, messageId)));
  if (!data) return instead;
  return (
    <Part title={t("find.found")}>
      <Unreachable of={data.unreachable} />
      {data.results.length === 0 ? (
        <Text role="status">{t("find.nothing", { id: messageId, subject })}</Text>
      ) : (
        <Table.ScrollContainer minWidth={480}>
          <Table withTableBorder>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("find.place")}</Table.Th>
                <Table.Th>{t("step.stored")}</Table.Th>
                <Table.Th>{t("step.created")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {data.results.map(({ broker_group: brokerGroup, sequence, stored_at, created_at }) => (
                <Table.Tr key={`${brokerGroup}:${sequence}`}>
                  <Table.Td>
                    <To place={{ subject, brokerGroup, sequence }} recent={search.recent}>
                      {`${brokerGroup} · ${sequence}`}
                    </To>
                  </Table.Td>
                  <Table.Td>
                    <Instant at={stored_at} withMillis />
                  </Table.Td>
                  <Table.Td>
                    <Instant at={created_at} withMillis />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Part>
  );
}
