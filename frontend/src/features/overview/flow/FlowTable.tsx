import { useTranslation } from "@/i18n/useTranslation";
import { targetOf } from "@/features/overview/flow/places";
import { usePlaceText } from "@/features/overview/flow/usePlaceText";
import type { Flow, FlowPlace } from "@/features/overview/queries";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { defineColumns } from "@/ui/table/define";
import { PlainTable } from "@/ui/table/PlainTable";

interface Row {
  from: FlowPlace;
  to: FlowPlace;
  rate: number;
}

/** The picture's bands in rows, the widest first. */
export function FlowTable({ flow }: { flow: Flow }) {
  const { t } = useTranslation("overview");
  const text = usePlaceText();
  const places = new Map([...flow.applications, ...flow.subjects, ...flow.groups].map((place) => [place.id, place]));
  const rows = flow.links
    .flatMap(({ sender, receiver, rate }): Row[] => {
      const from = places.get(sender);
      const to = places.get(receiver);
      return from && to ? [{ from, to, rate }] : [];
    })
    .sort((a, b) => b.rate - a.rate);
  const link = (place: FlowPlace) => (
    <LinkTo {...targetOf(place)} size="sm" className="break">
      {text.name(place)}
    </LinkTo>
  );
  return (
    <div className="flow-table">
      <PlainTable<Row>
        minWidth={280}
        isDense
        label={t("flow.title")}
        columns={defineColumns<Row>(
          (id) => t(`flow.column.${id}`),
          (column) => [
            column("from", ({ from }) => link(from)),
            column("to", ({ to }) => link(to)),
            column("rate", { align: "right" }, ({ rate }) => <Measured value={rate} as="rate" />),
            column("lag", { align: "right" }, ({ to }) => (to.id.startsWith("g") ? <Measured value={to.lag} /> : "")),
          ],
        )}
        rows={rows}
        rowKey={({ from, to }) => `${from.id} ${to.id}`}
      />
    </div>
  );
}
