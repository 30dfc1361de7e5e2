import { Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { LiveDrainTime, LiveGroupNumber } from "@/features/subjects/LiveCells";
import { shellWord } from "@/ui/clientLines";
import type { Section } from "@/live/applyDelta";
import { lagPath, useLive } from "@/live/useLive";
import { LinkTo } from "@/ui/LinkTo";
import { Teach } from "@/ui/Teach";
import { GroupLink } from "@/ui/links";

const SHOWN = 8;
const NUMBERS = [
  { field: "lag", as: "compact" },
  { field: "time_lag_seconds", as: "duration" },
  { field: "ack_rate", as: "rate" },
  { field: "consumers_online", as: "count" },
] as const;

/** Groups by lag, the furthest behind first; those that could not be measured before all: nobody knows how far behind they are. */
export function byLag(groups: Section): readonly { group: string; lag: number }[] {
  return Object.values(groups)
    .map((entry) => ({
      group: typeof entry.group === "string" ? entry.group : "",
      lag: typeof entry.lag === "number" ? entry.lag : Infinity,
    }))
    .sort((one, other) => other.lag - one.lag || one.group.localeCompare(other.group));
}

/** The consumer groups of a subject that are furthest behind, live. */
export function FurthestBehind({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const { state, at } = useLive(lagPath({ subject }));
  if (at === null) return <Text c="dimmed">{t("common:live.nothing_yet")}</Text>;
  const groups = byLag(state.groups ?? {});
  if (groups.length === 0) {
    return (
      <Teach title={t("groups.empty_title")} commands={[`qmq consume ${shellWord(subject)} my-group`]}>
        {t("groups.empty_text")}
      </Teach>
    );
  }
  return (
    <>
      <Table.ScrollContainer minWidth={560}>
        <Table highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("groups.name")}</Table.Th>
              {NUMBERS.map(({ field }) => (
                <Table.Th key={field} ta="right">
                  {t(`groups.${field}`)}
                </Table.Th>
              ))}
              <Table.Th ta="right">{t("groups.drain_seconds")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {groups.slice(0, SHOWN).map(({ group }) => (
              <Table.Tr key={group} data-row={group}>
                <Table.Td>
                  <GroupLink subject={subject} group={group} inherit />
                </Table.Td>
                {NUMBERS.map(({ field, as }) => (
                  <Table.Td key={field} ta="right" data-cell={field}>
                    <LiveGroupNumber subject={subject} group={group} field={field} as={as} />
                  </Table.Td>
                ))}
                <Table.Td ta="right">
                  <LiveDrainTime subject={subject} group={group} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {groups.length > SHOWN && (
        <LinkTo to="/subjects/$subject" params={{ subject }} search={{ tab: "groups" }} size="sm">
          {t("behind.all", { count: groups.length })}
        </LinkTo>
      )}
    </>
  );
}
