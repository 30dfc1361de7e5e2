import "@/features/dead_letters/attempts.css";
import { Switch, Table, Text } from "@mantine/core";
import { useMemo, useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { columnsOf, propertyRows, type Column } from "@/features/dead_letters/compare";
import type { Story } from "@/features/dead_letters/queries";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { Measured } from "@/ui/Measured";

/** The attempts that ended in a letter, side by side: when, who, how long, and what each changed in the properties. */
export function Attempts({ story }: { story: Story }) {
  const { t } = useTranslation("dead_letters");
  const [isAll, setAll] = useState(false);
  const columns = useMemo(() => columnsOf(story), [story]);
  const rows = useMemo(() => propertyRows(columns), [columns]);
  const shown = isAll ? rows : rows.filter(({ isChanged, isSystem }) => !isSystem && isChanged.some(Boolean));
  const attempts = columns.filter(({ attempt }) => attempt !== null);
  if (attempts.length === 0) return <Text c="dimmed">{t("attempts.none")}</Text>;
  const line = (name: string, cell: (column: Column) => ReactNode) => (
    <Table.Tr>
      <Table.Th scope="row">{name}</Table.Th>
      {columns.map((column) => (
        <Table.Td key={placeOf(column)}>{cell(column)}</Table.Td>
      ))}
    </Table.Tr>
  );
  return (
    <>
      {/* A scrolled region has to be reachable by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="attempts" tabIndex={0} role="region" aria-label={t("attempts.title")}>
        <Table withTableBorder withColumnBorders>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>
                <span className="sr-only">{t("attempts.what")}</span>
              </Table.Th>
              {columns.map((column) => (
                <Table.Th key={placeOf(column)} data-attempt={column.attempt ?? "letter"}>
                  {column.subject === null ? (
                    t("attempts.letter")
                  ) : (
                    <LinkTo
                      inherit
                      to="/trace/$subject/$brokerGroup/$sequence"
                      params={{
                        subject: column.subject,
                        brokerGroup: column.brokerGroup,
                        sequence: column.sequence,
                      }}
                    >
                      {t("attempts.number", { number: column.attempt })}
                    </LinkTo>
                  )}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {line(t("attempts.waited_since"), ({ waitedSince }) => (
              <Instant at={waitedSince} withMillis />
            ))}
            {line(t("attempts.consumer"), ({ attempt, consumerId, why }) =>
              attempt === null ? null : (consumerId ?? <Unknown why={why} />),
            )}
            {line(t("attempts.pulled"), ({ attempt, pulledAt, why }) =>
              attempt === null ? null : pulledAt === null ? (
                <Unknown why={why} />
              ) : (
                <Instant at={pulledAt} withMillis />
              ),
            )}
            {line(t("attempts.ended"), ({ attempt, endedAt, why }) =>
              attempt === null ? null : endedAt === null ? <Unknown why={why} /> : <Instant at={endedAt} withMillis />,
            )}
            {line(t("attempts.took"), ({ attempt, tookSeconds, why }) =>
              attempt === null ? null : <Measured value={tookSeconds} as="duration" reason={why} />,
            )}
            {shown.map(({ name, values, isChanged }) => (
              <Table.Tr key={name} data-property={name}>
                <Table.Th scope="row" className="break">
                  {name}
                </Table.Th>
                {values.map((value, at) => (
                  <Table.Td key={at} className={isChanged[at] ? "changed" : undefined}>
                    {value === null ? (
                      <Text span inherit c="dimmed">
                        {t("attempts.absent")}
                      </Text>
                    ) : (
                      <Text span inherit lineClamp={4} className="break">
                        {value}
                      </Text>
                    )}
                    {isChanged[at] && <span className="sr-only"> {t("attempts.changed")}</span>}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {rows.length > 0 && (
        <>
          {shown.length === 0 && (
            <Text size="sm" c="dimmed">
              {t("attempts.same")}
            </Text>
          )}
          <Switch
            size="sm"
            label={t("attempts.all_properties")}
            checked={isAll}
            onChange={(event) => setAll(event.currentTarget.checked)}
          />
        </>
      )}
    </>
  );
}

// A message that was sent twice with one id has attempts of the same number: only the place tells them apart.
function placeOf({ subject, brokerGroup, sequence }: Column): string {
  return `${subject ?? ""} ${brokerGroup} ${sequence}`;
}

function Unknown({ why }: { why: string | null }) {
  return <Measured value={null} reason={why} />;
}
