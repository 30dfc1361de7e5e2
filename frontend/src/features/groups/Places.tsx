import { Progress, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { heldOn, shareDone } from "@/features/groups/places";
import type { Detail, Place } from "@/features/groups/queries";
import * as numbers from "@/format/numbers";
import { Measured } from "@/ui/measure/Measured";
import { BrokerLink } from "@/ui/links/links";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

/** Where the group stands on each broker group: sequences are each broker group's own. */
export function Places({ detail }: { detail: Detail }) {
  const { t } = useTranslation("groups");
  if (detail.progress.length === 0) return <Text c="dimmed">{t("places.none")}</Text>;
  const places = detail.progress.toSorted((one, other) => one.broker_group.localeCompare(other.broker_group));
  const offset = (of: string | null, reason: string | null) =>
    of === null ? <Measured value={null} reason={reason} /> : numbers.sequence(of);
  return (
    <PlainTable
      minWidth={980}
      label={t("places.title")}
      highlightOnHover
      columns={defineColumns<Place>(
        (id) => t(`places.${id}`),
        (column) => [
          column("broker_group", { isFixed: true }, (place) => <BrokerLink name={place.broker_group} />),
          column("begin", { align: "right" }, (place) => offset(place.begin_sequence, place.reason)),
          column("next", { align: "right" }, (place) => offset(place.next_sequence, place.reason)),
          column("end", { align: "right" }, (place) => offset(place.end_sequence, place.reason)),
          column("passed", (place) => {
            const share = shareDone(place);
            if (share === null) return <Measured value={null} reason={place.reason} />;
            return <Progress value={share * 100} size="lg" miw={96} aria-label={t("places.passed")} />;
          }),
          column("held", (place) => <Held place={place} detail={detail} />),
          column("lag", { header: t("column.lag"), align: "right" }, ({ lag, reason }) => (
            <Measured value={lag} reason={reason} />
          )),
          column("time_lag", { header: t("column.time_lag_seconds"), align: "right" }, (place) => (
            <Measured value={place.time_lag_seconds} as="duration" reason={place.reason} />
          )),
          column("ack_rate", { header: t("column.ack_rate"), align: "right" }, (place) => (
            <Measured value={place.ack_rate} as="rate" reason={place.reason} />
          )),
        ],
      )}
      rows={places}
      rowKey={(place) => place.broker_group}
    />
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
    <span
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- who holds them is shown on focus
      tabIndex={0}
      className="nowrap"
      data-hint={ranges
        .slice(0, 20)
        .map(({ begin, last, consumer }) => `${numbers.sequence(begin)}–${numbers.sequence(last)} · ${consumer}`)
        .join("\n")}
    >
      {shown
        .map(({ begin, last }) =>
          begin === last ? numbers.sequence(begin) : `${numbers.sequence(begin)}–${numbers.sequence(last)}`,
        )
        .join(", ")}
      {more > 0 && ` ${t("places.more", { count: more })}`}
    </span>
  );
}
