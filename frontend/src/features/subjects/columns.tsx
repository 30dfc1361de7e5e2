import { Badge } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { Favourite } from "@/features/subjects/Favourite";
import { LiveNumber, LiveWorstLag } from "@/features/subjects/LiveCells";
import type { Subject } from "@/features/subjects/queries";
import type { Favourites } from "@/features/subjects/useFavourites";
import { Instant } from "@/ui/measure/Instant";
import { Measured } from "@/ui/measure/Measured";
import { addressOf, RowLink } from "@/ui/links/RowLink";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column } from "@/ui/table/types";

/** How long messages are kept; without a retention of its own a subject follows its nodes. */
export function Retention({ hours }: { hours: number | null | undefined }) {
  const { t } = useTranslation("subjects");
  if (hours === null || hours === undefined) return <>{t("retention.default")}</>;
  return <Measured value={hours * 3600} as="duration" />;
}

/** Archived, moving, restricted: what is out of the ordinary about a subject. */
export function SubjectState({ subject }: { subject: Subject }) {
  const { t } = useTranslation("subjects");
  const words = [
    subject.is_archived && { key: "archived", color: "gray" },
    Object.keys(subject.phases).length > 0 && { key: "moving", color: "blue" },
    Array.isArray(subject.allowed_groups) && { key: "restricted", color: "grape" },
  ].filter((word) => word !== false);
  if (words.length === 0) return null;
  return (
    <span className="words">
      {words.map(({ key, color }) => (
        <Badge key={key} variant="light" color={color} tt="none" data-hint={t(`state.${key}_hint`)}>
          {t(`state.${key}`)}
        </Badge>
      ))}
    </span>
  );
}

/** Columns of the list of subjects. Live numbers redraw themselves: the columns stay the same. */
export function useColumns(favourites: Favourites): readonly Column<Subject>[] {
  const { t } = useTranslation("subjects");
  return useMemo(
    () =>
      defineColumns<Subject>(headers(t), (column) => [
        column("name", { sort: true, isFixed: true }, (row) => (
          <RowLink to={addressOf("subjects", row.name)}>{row.name}</RowLink>
        )),
        column("favourite", { card: "state" }, (row) => <Favourite subject={row.name} favourites={favourites} />),
        column("send_rate", { card: "fact", sort: "-send_rate", align: "right" }, (row) => (
          <LiveNumber subject={row.name} field="send_rate" as="rate" />
        )),
        column("stored", { align: "right", isHiddenAtFirst: true }, (row) => (
          <LiveNumber subject={row.name} field="stored_messages" as="compact" />
        )),
        column("worst_lag", { card: "fact", sort: "-highest_lag", align: "right" }, (row) => (
          <LiveWorstLag subject={row.name} />
        )),
        column("consumer_groups", { card: "fact", sort: true, align: "right" }, (row) => (
          <Measured value={row.consumer_groups} />
        )),
        column("state", { card: "line", sort: "archived_at" }, (row) => <SubjectState subject={row} />),
        column("owner", { sort: true }, (row) => row.owner ?? "—"),
        column("tags", (row) => (
          <span className="words">
            {row.tags?.map((tag) => (
              <span key={tag} className="word">
                {tag}
              </span>
            ))}
          </span>
        )),
        column("retention", { sort: "retention_hours", align: "right" }, (row) => (
          <Retention hours={row.retention_hours} />
        )),
        column("placement", { align: "right" }, (row) => (
          <span data-hint={row.broker_groups.join(", ") || undefined}>{row.broker_groups.length}</span>
        )),
        column("created_at", { sort: true, isHiddenAtFirst: true }, (row) => <Instant at={row.created_at} />),
        column("updated_at", { sort: true }, (row) => <Instant at={row.updated_at} relative />),
      ]),
    [t, favourites],
  );
}
