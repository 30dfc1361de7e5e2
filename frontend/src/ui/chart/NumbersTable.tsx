import { Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { TimeChartProps } from "@/ui/chart/types";
import { inFull, instant } from "@/ui/chart/words";
import { useLanguage, useZone } from "@/ui/preferences";

/** Rows that are shown: the newest. */
export const ROWS_MAX = 200;

/** A chart's numbers in rows, the newest first. */
export function NumbersTable({ label, at, series, bands = [], height }: TimeChartProps & { height: number }) {
  const { t } = useTranslation();
  const language = useLanguage();
  const zone = useZone();
  const columns = [
    ...series,
    ...bands.flatMap(({ label: name, low, high }) => [
      { label: `${name} ↓`, values: low, as: series[0]?.as },
      { label: `${name} ↑`, values: high, as: series[0]?.as },
    ]),
  ];
  const rows = at.map((seconds, index) => ({ seconds, index })).slice(-ROWS_MAX);
  return (
    <>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolled region has to be reachable by keyboard */}
      <div className="chart-table" style={{ height }} tabIndex={0} role="region" aria-label={label}>
        <Table stickyHeader withRowBorders={false}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("chart.time")}</Table.Th>
              {columns.map(({ label: name }) => (
                <Table.Th key={name} ta="right">
                  {name}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.reverse().map(({ seconds, index }) => (
              <Table.Tr key={seconds}>
                <Table.Th scope="row" fw={400} className="nowrap">
                  {instant(seconds, zone)}
                </Table.Th>
                {columns.map(({ label: name, values, as }) => {
                  const value = values[index];
                  return (
                    <Table.Td key={name} ta="right">
                      {typeof value === "number" ? inFull(value, as, language) : t("unknown.label")}
                    </Table.Td>
                  );
                })}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {at.length > ROWS_MAX && (
        <Text size="xs" c="dimmed">
          {t("chart.newest", { rows: ROWS_MAX, all: at.length })}
        </Text>
      )}
    </>
  );
}
