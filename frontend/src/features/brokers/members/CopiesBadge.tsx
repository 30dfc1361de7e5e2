import { Badge } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { copiesOf } from "@/features/brokers/members/members";
import type { BrokerGroup } from "@/features/brokers/queries";

/** That all copies of a group are on one rack, if they are. */
export function RackBadge({ group: { shared_rack: rack } }: { group: BrokerGroup }) {
  const { t } = useTranslation("brokers");
  if (!rack) return null;
  return (
    <Badge color="yellow" variant="light" tt="none" data-shared-rack={rack} title={t("rack.remedy")}>
      {t("rack.short", { rack })}
    </Badge>
  );
}

/**
 * How many copies are in sync: "2 of 2". Its color says whether one is missing, or sends are rejected; `isLong` adds
 * "in sync".
 */
export function CopiesBadge({ group, isLong = false }: { group: BrokerGroup; isLong?: boolean }) {
  const { t } = useTranslation("brokers");
  const copies = copiesOf(group);
  if (copies === null) return isLong ? null : "—";
  const state = copies.isBelowMinimum ? "below" : copies.inSync < copies.wanted ? "fewer" : "complete";
  return (
    <Badge
      // Copies that no node serves are nothing good.
      color={group.reported_state === "offline" ? "gray" : { below: "red", fewer: "yellow", complete: "teal" }[state]}
      variant="light"
      tt="none"
      data-copies={state}
      title={t(`copies.hint.${state}`, { minimum: copies.minimum })}
    >
      {t(isLong ? "copies.in_sync" : "answering", { count: copies.inSync, all: copies.wanted })}
      {state !== "complete" && !isLong && ` · ${t(`copies.short.${state}`)}`}
    </Badge>
  );
}
