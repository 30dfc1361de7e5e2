import { Progress, Stack, Table, Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { heldOn, shareDone } from "@/features/groups/places";
import type { Detail, Place } from "@/features/groups/queries";
import * as numbers from "@/format/numbers";
import { Measured } from "@/ui/Measured";
import { BrokerLink } from "@/ui/links";

/** Where the group stands on each broker group: sequences are each broker group's own. */
export function Places({ detail }: { detail: Detail }) {
  const { t } = useTranslation("groups");
  if (detail.progress.length === 0) return <Text c="dimmed">{t("places.none")}</Text>;
  const places = detail.progress.toSorted((one, other) => one.broker_group.localeCompare(other.broker_group));
  return (
    <Table.ScrollContainer minWidth={980} scrollAreaProps={{ "aria-label": t("places.title"), tabIndex: 0 }}>
      <Table highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("places.broker_group")}</Table.Th>
            <Table.Th ta="right">{t("places.begin")}</Table.Th>
            <Table.Th ta="right">{t("places.next")}</Table.Th>
            <Table.Th ta="right">{t("places.end")}</Table.Th>
            <Table.Th w={120}>{t("places.passed")}</Table.Th>
            <Table.Th>{t("places.held")}</Table.Th>
            <Table.Th ta="right">{t("column.lag")}</Table.Th>
            <Table.Th ta="right">{t("column.time_lag_seconds")}</Table.Th>
            <Table.Th ta="right">{t("column.ack_rate")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {places.map((place) => (
            <Row key={place.broker_group} place={place} detail={detail} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Sequence({ of, reason }: { of: string | null; reason: string | null }) {
  return of === null ? <Measured value={null} reason={reason} /> : <>{numbers.sequence(of)}</>;
}

function Row({ place, detail }: { place: Place; detail: Detail }) {
  const { t } = useTranslation("groups");
  const { broker_group: name, reason } = place;
  const share = shareDone(place);
  return (
    <Table.Tr data-place={name}>
      <Table.Th scope="row" fw={400}>
        <BrokerLink name={name} inherit />
      </Table.Th>
      <Table.Td ta="right">
        <Sequence of={place.begin_sequence} reason={reason} />
      </Table.Td>
      <Table.Td ta="right">
        <Sequence of={place.next_sequence} reason={reason} />
      </Table.Td>
      <Table.Td ta="right">
        <Sequence of={place.end_sequence} reason={reason} />
      </Table.Td>
      <Table.Td>
        {share === null ? (
          <Measured value={null} reason={reason} />
        ) : (
          <Progress value={share * 100} size="lg" aria-label={t("places.passed")} />
        )}
      </Table.Td>
      <Table.Td>
        <Held place={place} detail={detail} />
      </Table.Td>
      <Table.Td ta="right">
        <Measured value={place.lag} reason={reason} />
      </Table.Td>
      <Table.Td ta="right">
        <Measured value={place.time_lag_seconds} as="duration" reason={reason} />
      </Table.Td>
      <Table.Td ta="right">
        <Measured value={place.ack_rate} as="rate" reason={reason} />
      </Table.Td>
    </Table.Tr>
  );
}

/** The sequences in flight and who holds them; the oldest few, all that are known on hover. */
function Held({ place, detail }: { place: Place; detail: Detail }) {
  const { t } = useTranslation("groups");
  if (place.in_flight === null) return <Measured value={null} reason={place.reason} />;
  if (place.in_flight === 0)
    return (
      <Text span c="dimmed" inherit>
        {t("places.nothing_held")}
      </Text>
    );
  const { ranges, total } = heldOn(detail.members, place.broker_group);
  const shown = ranges.slice(0, 2);
  const more = total - shown.length;
  return (
    <Tooltip
      multiline
      maw={420}
      label={
        <Stack gap={0}>
          {ranges.slice(0, 20).map(({ begin, last, consumer }) => (
            <span key={`${begin} ${consumer}`}>
              {numbers.sequence(begin)}–{numbers.sequence(last)} · {consumer}
            </span>
          ))}
        </Stack>
      }
    >
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- who holds them is shown on focus */}
      <span tabIndex={0} className="nowrap">
        {shown
          .map(({ begin, last }) =>
            begin === last ? numbers.sequence(begin) : `${numbers.sequence(begin)}–${numbers.sequence(last)}`,
          )
          .join(", ")}
        {more > 0 && ` ${t("places.more", { count: more })}`}
      </span>
    </Tooltip>
  );
}
