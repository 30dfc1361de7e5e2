import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { switchJob, jobsOptions, type Job } from "@/features/jobs/queries";
import { COLOURS, verdictOf } from "@/features/jobs/verdict";
import { sequence } from "@/format/numbers";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { JobError } from "@/shared/JobError";
import { useJobError, useJobResult } from "@/shared/jobResult";
import { loaded } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { useLanguage } from "@/ui/preferences";
import { RunNow, jobsKey } from "@/shared/RunNow";
import { TableView } from "@/ui/table/TableView";
import { defineColumns, headers } from "@/ui/table/define";

/** The background jobs: what each does, how its last run went, when it runs next. */
export default function JobsPage() {
  const { t } = useTranslation("jobs");
  const [data, instead] = loaded(useQuery(jobsOptions()));
  const [switching, setSwitching] = useState<Job | null>(null);
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} />
      {data ? <Jobs jobs={data.results} onSwitch={setSwitching} /> : instead}
      {switching && <Switch job={switching} onClose={() => setSwitching(null)} />}
    </>
  );
}

function Jobs({ jobs, onSwitch }: { jobs: readonly Job[]; onSwitch: (job: Job) => void }) {
  const { t } = useTranslation("jobs");
  const language = useLanguage();
  const resultOf = useJobResult();
  const errorOf = useJobError();
  const may = useMay();
  const canAct = may("change_cluster");
  const columns = useMemo(
    () =>
      defineColumns<Job>(headers(t), (column) => [
        column("name", { isFixed: true }, ({ name, text }) => (
          <Stack gap={0} miw={160}>
            <b>{name}</b>
            <Text size="xs" c="dimmed" fw={400}>
              {t(`job.${name}`, { defaultValue: text })}
            </Text>
          </Stack>
        )),
        column("state", { card: "state" }, (job) => <Verdict job={job} />),
        column("last", { card: "fact" }, (job) => <Instant at={job.finished_at} relative />),
        column("result", { card: "line" }, (job) =>
          job.error ? (
            <JobError text={errorOf(job)} details={job.error_details} />
          ) : (
            <Text size="sm" className="break" miw={150}>
              {resultOf(job) || "—"}
            </Text>
          ),
        ),
        column("next", { card: "fact" }, (job) => (job.is_enabled ? <Instant at={job.next_run_at} relative /> : "—")),
        column("every", { card: "fact", align: "right" }, (job) => (
          <span className="nowrap">{duration(job.every_seconds, language)}</span>
        )),
        column("runs", { align: "right" }, (job) => sequence(job.runs)),
        column("failures", { align: "right" }, (job) => sequence(job.failures)),
        column("holder", ({ holder, queue }) => (
          <Stack gap={0} className="nowrap">
            {holder || "—"}
            <Text size="xs" c="dimmed">
              {t("queue", { name: queue })}
            </Text>
          </Stack>
        )),
        canAct &&
          column("action", { card: "action" }, (job) => (
            <Group gap={4}>
              {job.is_enabled && <RunNow name={job.name} size="compact-sm" disabled={job.is_running} />}
              <Button size="compact-sm" variant="default" onClick={() => onSwitch(job)}>
                {t(job.is_enabled ? "disable" : "enable")}
              </Button>
            </Group>
          )),
      ]),
    [t, language, resultOf, errorOf, canAct, onSwitch],
  );
  return <TableView label={t("title")} rows={jobs} columns={columns} rowKey={nameOf} />;
}

const nameOf = ({ name }: Job) => name;

function Verdict({ job }: { job: Job }) {
  const { t } = useTranslation("jobs");
  const verdict = verdictOf(job);
  return (
    <Badge color={COLOURS[verdict]} variant="light" data-verdict={verdict}>
      {t(`verdict.${verdict}`)}
    </Badge>
  );
}

function Switch({ job, onClose }: { job: Job; onClose: () => void }) {
  const { t } = useTranslation("jobs");
  // The page keeps refreshing the job: the change that the user chose stays the same.
  const [isOn] = useState(!job.is_enabled);
  return (
    <ChangeDialog
      onClose={onClose}
      title={t(isOn ? "enable_title" : "disable_title", { name: job.name })}
      confirmName={isOn ? undefined : job.name}
      actionLabel={t(isOn ? "enable" : "disable")}
      doneMessage={t(isOn ? "enabled" : "disabled", { name: job.name })}
      run={(attempt) => switchJob(job.name, isOn, attempt)}
      refreshes={[jobsKey]}
    />
  );
}
