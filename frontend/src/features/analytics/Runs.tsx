import { Badge, Code } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { analyticsKey, DEMO_JOB, loadRuns, type Run } from "@/features/analytics/queries";
import { RunDetails } from "@/features/analytics/RunDetails";
import { RunState, secondsOfRun } from "@/features/analytics/RunState";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { Measured } from "@/ui/Measured";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";
import { useUrlState } from "@/ui/urlState";

const STATES = ["running", "succeeded", "failed"] as const;
const REFRESH_MS = 15_000;

/** What the jobs did: when, over which time, and why not. One of them, with its inputs, by `?run=`. */
export function Runs() {
  const { t } = useTranslation("analytics");
  const [search, change] = useUrlState();
  const columns = useMemo<Column<Run>[]>(
    () => [
      {
        id: "id",
        header: t("run.id"),
        sort: "id",
        isFixed: true,
        cell: (row) => (
          <LinkTo to="/analytics" search={{ ...search, run: row.id }}>
            #{row.id}
          </LinkTo>
        ),
      },
      {
        id: "job",
        header: t("run.job"),
        cell: (row) => (
          <>
            {row.job} {row.job === DEMO_JOB && <Badge color="grape">{t("demo.label")}</Badge>}
          </>
        ),
      },
      { id: "state", header: t("run.state"), cell: (row) => <RunState state={row.state} /> },
      {
        id: "duration",
        header: t("run.duration"),
        align: "right",
        cell: (row) => <Measured value={secondsOfRun(row)} as="duration" reason={t("run.not_finished")} />,
      },
      {
        id: "started_at",
        header: t("run.started_at"),
        sort: "started_at",
        cell: (row) => <Instant at={row.started_at} relative />,
      },
      { id: "from_at", header: t("run.from_at"), isHiddenAtFirst: true, cell: (row) => <Instant at={row.from_at} /> },
      { id: "watermark_at", header: t("run.watermark_at"), cell: (row) => <Instant at={row.watermark_at} /> },
      {
        id: "rows_written",
        header: t("run.rows_written"),
        align: "right",
        cell: (row) => <Measured value={row.rows_written === null ? null : Number(row.rows_written)} />,
      },
      { id: "missing", header: t("run.missing"), cell: (row) => row.missing.join(", ") },
      {
        id: "late_rows",
        header: t("run.late_rows"),
        align: "right",
        isHiddenAtFirst: true,
        cell: (row) => <Measured value={row.late_rows === null ? null : Number(row.late_rows)} />,
      },
      {
        id: "holes",
        header: t("run.holes"),
        align: "right",
        isHiddenAtFirst: true,
        cell: (row) => <Measured value={row.holes === null ? null : Number(row.holes)} />,
      },
      {
        id: "error",
        header: t("run.error"),
        cell: (row) => row.error && <Code c="red">{row.error.split("\n")[0]}</Code>,
      },
    ],
    [t, search],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "text", name: "job", label: t("run.job") },
      {
        kind: "select",
        name: "state",
        label: t("run.state"),
        options: STATES.map((value) => ({ value, label: t(`state.${value}`) })),
      },
    ],
    [t],
  );
  return (
    <>
      <DataTable
        label={t("tab.runs")}
        queryKey={[...analyticsKey, "runs"]}
        load={loadRuns}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="-id"
        download="/api/v1/analytics/runs/"
        refetchMs={REFRESH_MS}
        empty={
          <Teach title={t("no_run.title")} code="python manage.py analytics">
            {t("no_run.text")}
          </Teach>
        }
      />
      <RunDetails id={search.run} onClose={() => change({ run: undefined })} />
    </>
  );
}
