import { Text } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { Card } from "@/features/overview/Card";
import type { Overview } from "@/features/overview/queries";
import { measured } from "@/live/useLive";
import { GroupLink } from "@/ui/links/links";
import { DrainTime } from "@/ui/measure/DrainTime";
import { Measured } from "@/ui/measure/Measured";
import { defineColumns } from "@/ui/table/define";
import { PlainTable } from "@/ui/table/PlainTable";

/** The consumer groups with the highest lag. */
export const HighestLag = memo(function HighestLag({ overview }: { overview: Overview }) {
  const { t } = useTranslation("overview");
  return (
    <Card title={t("worst")}>
      {overview.worst.length === 0 ? (
        <Text c="dimmed">{overview.unmeasured_reason ?? t("nobody_behind")}</Text>
      ) : (
        <PlainTable
          isDense
          minWidth={320}
          label={t("worst")}
          columns={defineColumns<Overview["worst"][number]>(
            (id) => t(id),
            (column) => [
              column("group", (row) => (
                <GroupLink subject={row.subject} group={row.group} className="break">
                  {row.subject} · {row.group}
                </GroupLink>
              )),
              column("lag", { header: t("tile.lag"), align: "right" }, (row) => <Measured {...measured(row, "lag")} />),
              column("time_lag", { align: "right" }, (row) => (
                <Measured {...measured(row, "time_lag_seconds")} as="duration" />
              )),
              column("drain", { align: "right" }, (row) => <DrainTime numbers={row} />),
            ],
          )}
          rows={overview.worst}
          rowKey={(row) => `${row.subject} ${row.group}`}
        />
      )}
    </Card>
  );
});
