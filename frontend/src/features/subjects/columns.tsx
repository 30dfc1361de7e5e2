import { Badge } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { LiveNumber, LiveWorstLag } from "@/features/subjects/LiveCells";
import type { Subject } from "@/features/subjects/queries";
import { Instant } from "@/ui/Instant";
import { Measured } from "@/ui/Measured";
import { addressOf, RowLink } from "@/ui/RowLink";
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

/** Columns of the list of subjects. Live numbers draw themselves anew: the columns stay the same. */
export function useColumns(): readonly Column<Subject>[] {
  const { t } = useTranslation("subjects");
  return useMemo<Column<Subject>[]>(
    () => [
      {
        id: "name",
        header: t("column.name"),
        sort: "name",
        isFixed: true,
        cell: (row) => <RowLink to={addressOf("subjects", row.name)}>{row.name}</RowLink>,
      },
      {
        id: "send_rate",
        card: "fact",
        header: t("column.send_rate"),
        align: "right",
        cell: (row) => <LiveNumber subject={row.name} field="send_rate" as="rate" />,
      },
      {
        id: "stored",
        header: t("column.stored"),
        align: "right",
        isHiddenAtFirst: true,
        cell: (row) => <LiveNumber subject={row.name} field="stored_messages" as="compact" />,
      },
      {
        id: "worst_lag",
        card: "fact",
        header: t("column.worst_lag"),
        align: "right",
        cell: (row) => <LiveWorstLag subject={row.name} />,
      },
      {
        id: "consumer_groups",
        card: "fact",
        sort: "consumer_groups",
        header: t("column.consumer_groups"),
        align: "right",
        cell: (row) => <Measured value={row.consumer_groups} />,
      },
      {
        id: "state",
        card: "state",
        sort: "archived_at",
        header: t("column.state"),
        cell: (row) => <SubjectState subject={row} />,
      },
      { id: "owner", sort: "owner", header: t("column.owner"), cell: (row) => row.owner ?? "—" },
      {
        id: "tags",
        header: t("column.tags"),
        cell: (row) => (
          <span className="words">
            {row.tags?.map((tag) => (
              <span key={tag} className="word">
                {tag}
              </span>
            ))}
          </span>
        ),
      },
      {
        id: "retention",
        sort: "retention_hours",
        header: t("column.retention"),
        align: "right",
        cell: (row) => <Retention hours={row.retention_hours} />,
      },
      {
        id: "placement",
        header: t("column.placement"),
        align: "right",
        cell: (row) => <span data-hint={row.broker_groups.join(", ") || undefined}>{row.broker_groups.length}</span>,
      },
      {
        id: "created_at",
        header: t("column.created_at"),
        sort: "created_at",
        isHiddenAtFirst: true,
        cell: (row) => <Instant at={row.created_at} />,
      },
      {
        id: "updated_at",
        header: t("column.updated_at"),
        sort: "updated_at",
        cell: (row) => <Instant at={row.updated_at} relative />,
      },
    ],
    [t],
  );
}
