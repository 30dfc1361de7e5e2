import { useQuery } from "@tanstack/react-query";
import { memo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { lastHourOptions } from "@/api/history";
import type { Overview } from "@/features/overview/queries";
import type { Reading } from "@/live/useLive";
import type { ChartColour } from "@/ui/chart/types";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured, type Format } from "@/ui/measure/Measured";
import { NumberStrip, StripNumber } from "@/ui/measure/NumberStrip";

const SYSTEM = {};

type Entry = Reading & {
  id: string;
  as?: Format;
  to: "/subjects" | "/groups" | "/brokers";
  note?: string | undefined;
  /** Of its last hour. */
  colour?: ChartColour;
};

/** The system's numbers: rates and lag with their last hour, and what there is. */
export const Numbers = memo(function Numbers({ overview }: { overview: Overview }) {
  const { t } = useTranslation("overview");
  const history = useQuery(lastHourOptions(SYSTEM));
  const reason = overview.unmeasured_reason;
  const groups = Object.entries(overview.broker_groups);
  const all = groups.reduce((sum, [, count]) => sum + count, 0);
  const online = groups.reduce((sum, [state, count]) => sum + (state === "offline" ? 0 : count), 0);
  const { known } = overview;
  const of = (field: "send_rate" | "ack_rate" | "lag") => ({
    id: field,
    value: overview[field],
    atLeast: known?.[field],
    missing: known?.missing,
    reason,
  });
  const entries: Entry[] = [
    { ...of("send_rate"), as: "rate", to: "/subjects", colour: "blue" },
    { ...of("ack_rate"), as: "rate", to: "/groups", colour: "teal" },
    { ...of("lag"), as: "compact", to: "/groups", colour: "orange" },
    {
      id: "subjects",
      value: overview.subjects,
      to: "/subjects",
      note: overview.subjects_moving ? t("moving", { count: overview.subjects_moving }) : undefined,
    },
    { id: "consumer_groups", value: overview.consumer_groups, to: "/groups" },
    { id: "broker_groups", value: online, to: "/brokers", note: t("of", { all }) },
  ];
  return (
    <NumberStrip>
      {entries.map(({ id, as, to, note, colour, ...reading }) => (
        <StripNumber
          key={id}
          label={t(`tile.${id}`)}
          note={note}
          colour={colour}
          history={colour && (history.data?.fields[id] ?? [])}
        >
          <LinkTo to={to} c="inherit" inherit>
            <Measured {...reading} as={as} />
          </LinkTo>
        </StripNumber>
      ))}
    </NumberStrip>
  );
});
