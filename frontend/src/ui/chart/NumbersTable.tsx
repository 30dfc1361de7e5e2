import { Text } from "@mantine/core";
import { Fragment } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { markersBetween } from "@/ui/chart/markers";
import type { Marker, TimeChartProps } from "@/ui/chart/types";
import { inFull, instant } from "@/ui/chart/words";
import { useLanguage, useZone } from "@/ui/preferences";
import { Table } from "@/ui/table/Table";

/** Rows that are shown: the newest. */
export const ROWS_MAX = 200;

const NO_MARKERS: readonly Marker[] = [];

/** A chart's numbers in rows, the newest first, and between them what happened. */
export function NumbersTable({
  label,
  at,
  series,
  bands = [],
  markers = NO_MARKERS,
  thresholds = [],
  border,
  height,
}: TimeChartProps & { height: number }) {
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
  const happened = markersBetween(border ? [...markers, border] : markers, rows[0]?.seconds ?? Infinity, Infinity);
  const after = (seconds: number, index: number) =>
    happened.filter((marker) => marker.at >= seconds && marker.at < (at[index + 1] ?? Infinity)).reverse();
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
              <Fragment key={seconds}>
                {after(seconds, index).map((marker) => (
                  <Table.Tr key={`${marker.at} ${marker.label}`} data-marker={marker.tone}>
                    <Table.Th scope="row" fw={400} className="nowrap">
                      {instant(Math.floor(marker.at), zone)}
                    </Table.Th>
                    <Table.Td colSpan={columns.length}>
                      {marker.symbol} {marker.label}
                    </Table.Td>
                  </Table.Tr>
                ))}
                <Table.Tr>
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
              </Fragment>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {thresholds.length > 0 && (
        <Text size="xs" c="dimmed">
          {t("chart.thresholds", { names: thresholds.map(({ label: name }) => name).join(", ") })}
        </Text>
      )}
      {at.length > ROWS_MAX && (
        <Text size="xs" c="dimmed">
          {t("chart.newest", { rows: ROWS_MAX, all: at.length })}
        </Text>
      )}
    </>
  );
}
