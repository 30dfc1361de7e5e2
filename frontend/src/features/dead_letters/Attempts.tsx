import "@/features/dead_letters/attempts.css";
import { Switch, Text } from "@mantine/core";
import { useMemo, useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { columnsOf, propertyRows, type Column } from "@/features/dead_letters/compare";
import type { Story } from "@/features/dead_letters/queries";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { cell } from "@/ui/message/decode";
import { Table } from "@/ui/table/Table";

/** The attempts before a dead letter, side by side: when, who, how long, and what each changed in the properties. */
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
  // The dead letter itself has none; what is not known says why.
  const ofAttempt = (name: string, cell: (column: Column) => ReactNode) =>
    line(name, (column) =>
      column.attempt === null ? null : (cell(column) ?? <Measured value={null} reason={column.why} />),
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
                      params={{ subject: column.subject, brokerGroup: column.broker_group, sequence: column.sequence }}
                    >
                      {t("attempts.number", { number: column.attempt })}
                    </LinkTo>
                  )}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {line(t("attempts.waited_since"), ({ stored_at }) => (
              <Instant at={stored_at} withMillis />
            ))}
            {ofAttempt(t("attempts.consumer"), ({ consumer_id }) => consumer_id)}
            {ofAttempt(t("attempts.pulled"), ({ pulled_at }) => pulled_at && <Instant at={pulled_at} withMillis />)}
            {ofAttempt(t("attempts.ended"), ({ ended_at }) => ended_at && <Instant at={ended_at} withMillis />)}
            {ofAttempt(t("attempts.took"), ({ tookSeconds, why }) => (
              <Measured value={tookSeconds} as="duration" reason={why} />
            ))}
            {line(t("column.cause"), ({ attempt, cause }) =>
              attempt === null ? null : cause === null ? (
                <Text span inherit c="dimmed">
                  {t("cause.none")}
                </Text>
              ) : (
                cause
              ),
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
                        {cell(value)}
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

// A message that was sent twice with one id has attempts of the same number: only the place distinguishes them.
function placeOf({ subject, broker_group, sequence }: Column): string {
  return `${subject ?? ""} ${broker_group} ${sequence}`;
}
