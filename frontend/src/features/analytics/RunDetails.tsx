import { Badge, Code, Loader, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { runOptions, type Run } from "@/features/analytics/queries";
import { Dialog } from "@/ui/dialog/Dialog";
import { FactTable, type Fact } from "@/ui/page/FactTable";
import { JobError } from "@/shared/JobError";
import { Instant } from "@/ui/measure/Instant";
import { QueryProblem } from "@/ui/page/loaded";
import { Measured } from "@/ui/measure/Measured";

/** One run, with what went in. */
export function RunDetails({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const { t } = useTranslation("analytics");
  const found = useQuery({ ...runOptions(id ?? ""), enabled: id !== undefined });
  return (
    <Dialog opened={id !== undefined} onClose={onClose} size="lg" title={t("run.title", { id })}>
      <QueryProblem of={found} />
      {found.isLoading && <Loader aria-label={t("common:state.loading")} />}
      {found.data && <Facts run={found.data} />}
    </Dialog>
  );
}

function Facts({ run }: { run: Run }) {
  const { t } = useTranslation("analytics");
  const facts: Fact[] = [
    ["job", run.job],
    ["state", <RunState key="state" state={run.state} />],
    ["from_at", <Instant key="from" at={run.from_at} />],
    ["to_at", <Instant key="to" at={run.to_at} />],
    ["watermark_at", <Instant key="watermark" at={run.watermark_at} />],
    ["started_at", <Instant key="started" at={run.started_at} />],
    ["finished_at", <Instant key="finished" at={run.finished_at} />],
    ["duration", <Measured key="duration" value={secondsOfRun(run)} as="duration" reason={t("run.not_finished")} />],
    ["rows_read", <Count key="rows_read" text={run.rows_read} />],
    ["rows_written", <Count key="rows_written" text={run.rows_written} />],
    ["missing", run.missing.join(", ") || "—"],
    [
      "skipped",
      Object.entries(run.skipped)
        .map(([table, reason]) => t("run.skipped_table", { table, reason: t(`skipped.${reason}`) }))
        .join(", ") || "—",
    ],
    ["late_rows", <Count key="late_rows" text={run.late_rows} />],
    ["holes", <Count key="holes" text={run.holes} />],
    ["tables", run.tables.join(", ") || "—"],
    [
      "inputs",
      <Code key="inputs" block tabIndex={0}>
        {JSON.stringify(run.inputs, null, 2)}
      </Code>,
    ],
  ];
  return (
    <Stack>
      {run.error && <JobError text={run.error} />}
      <FactTable width={180} facts={facts.map(([name, value]) => [t(`run.${name}`), value])} />
    </Stack>
  );
}

/** A count of a run. */
export function Count({ text }: { text: string | null }) {
  return <Measured value={text === null ? null : Number(text)} />;
}

const COLOURS = { running: "blue", succeeded: "teal", failed: "red" } as const;

/** Running, done, or failed. */
export function RunState({ state }: { state: Run["state"] }) {
  const { t } = useTranslation("analytics");
  return (
    <Badge variant="light" color={COLOURS[state]} data-state={state}>
      {t(`state.${state}`)}
    </Badge>
  );
}

/** How long it took; null while it runs. */
export function secondsOfRun(run: Pick<Run, "started_at" | "finished_at">): number | null {
  return run.finished_at === null ? null : (Date.parse(run.finished_at) - Date.parse(run.started_at)) / 1000;
}
