import { Badge } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { list } from "@/api/requests";
import { analyticsKey, DEMO_JOB, type Run } from "@/features/analytics/queries";
import { Count, RunDetails, RunState, secondsOfRun } from "@/features/analytics/RunDetails";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { JobError } from "@/shared/JobError";
import { Teach } from "@/shared/Teach";
import { useUrlState } from "@/ui/links/urlState";

const STATES = ["running", "succeeded", "failed"] as const;
const REFRESH_MS = 15_000;

/** What the jobs did: when, over which time, and why not. One of them, with its inputs, by `?run=`. */
export function Runs() {
  const { t } = useTranslation("analytics");
  const [search, change] = useUrlState();
  const columns = useMemo(
    () =>
      defineColumns<Run>(
        (id) => t(`run.${id}`),
        (column) => [
          column("id", { sort: true, isFixed: true }, (row) => (
            <LinkTo to="/analytics" search={{ ...search, run: row.id }}>
              #{row.id}
            </LinkTo>
          )),
          column("job", (row) => (
            <>
              {row.job} {row.job === DEMO_JOB && <Badge color="grape">{t("demo.label")}</Badge>}
            </>
          )),
          column("state", (row) => <RunState state={row.state} />),
          column("duration", { align: "right" }, (row) => (
            <Measured value={secondsOfRun(row)} as="duration" reason={t("run.not_finished")} />
          )),
          column("started_at", { sort: true }, (row) => <Instant at={row.started_at} relative />),
          column("from_at", { isHiddenAtFirst: true }, (row) => <Instant at={row.from_at} />),
          column("watermark_at", (row) => <Instant at={row.watermark_at} />),
          column("rows_written", { align: "right" }, (row) => <Count text={row.rows_written} />),
          column("missing", (row) => row.missing.join(", ")),
          column("late_rows", { align: "right", isHiddenAtFirst: true }, (row) => <Count text={row.late_rows} />),
          column("holes", { align: "right", isHiddenAtFirst: true }, (row) => <Count text={row.holes} />),
          column("error", (row) => row.error && <JobError text={row.error} />),
        ],
      ),
    [t, search],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "text", name: "job", label: t("run.job") },
      choice("state", t("run.state"), STATES, (value) => t(`state.${value}`)),
    ],
    [t],
  );
  return (
    <>
      <DataTable
        label={t("tab.runs")}
        queryKey={[...analyticsKey, "runs"]}
        load={list("/api/v1/analytics/runs/")}
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
