import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { switchTask, tasksOptions, type Task } from "@/features/tasks/queries";
import { COLOURS, verdictOf } from "@/features/tasks/verdict";
import { sequence } from "@/format/numbers";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { JobError } from "@/shared/JobError";
import { useJobResult } from "@/shared/jobResult";
import { loaded } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { useLanguage } from "@/ui/preferences";
import { RunNow, tasksKey } from "@/shared/RunNow";
import { TableView } from "@/ui/table/TableView";
import { defineColumns, headers } from "@/ui/table/define";

/** The background jobs: what each does, how its last run went, when it runs next. */
export default function TasksPage() {
  const { t } = useTranslation("tasks");
  const [data, instead] = loaded(useQuery(tasksOptions()));
  const [switching, setSwitching] = useState<Task | null>(null);
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} />
      {data ? <Loops tasks={data.results} onSwitch={setSwitching} /> : instead}
      {switching && <Switch task={switching} onClose={() => setSwitching(null)} />}
    </>
  );
}

function Loops({ tasks, onSwitch }: { tasks: readonly Task[]; onSwitch: (task: Task) => void }) {
  const { t } = useTranslation("tasks");
  const language = useLanguage();
  const resultOf = useJobResult();
  const may = useMay();
  const canAct = may("change_cluster");
  const columns = useMemo(
    () =>
      defineColumns<Task>(headers(t), (column) => [
        column("name", { isFixed: true }, ({ name, text }) => (
          <Stack gap={0} miw={160}>
            <b>{name}</b>
            <Text size="xs" c="dimmed" fw={400}>
              {t(`job.${name}`, { defaultValue: text })}
            </Text>
          </Stack>
        )),
        column("state", { card: "state" }, (task) => <Verdict task={task} />),
        column("last", { card: "fact" }, (task) => <Instant at={task.finished_at} relative />),
        column("result", { card: "line" }, (task) =>
          task.error ? (
            <JobError text={task.error} details={task.error_details} />
          ) : (
            <Text size="sm" className="break" miw={150}>
              {resultOf(task) || "—"}
            </Text>
          ),
        ),
        column("next", { card: "fact" }, (task) =>
          task.is_enabled ? <Instant at={task.next_run_at} relative /> : "—",
        ),
        column("every", { card: "fact", align: "right" }, (task) => duration(task.every_seconds, language)),
        column("runs", { align: "right" }, (task) => sequence(task.runs)),
        column("failures", { align: "right" }, (task) => sequence(task.failures)),
        column("holder", ({ holder, queue }) => (
          <Stack gap={0} className="nowrap">
            {holder || "—"}
            <Text size="xs" c="dimmed">
              {t("queue", { name: queue })}
            </Text>
          </Stack>
        )),
        canAct &&
          column("action", { card: "action" }, (task) => (
            <Group gap={4}>
              {task.is_enabled && <RunNow name={task.name} size="compact-sm" disabled={task.is_running} />}
              <Button size="compact-sm" variant="default" onClick={() => onSwitch(task)}>
                {t(task.is_enabled ? "disable" : "enable")}
              </Button>
            </Group>
          )),
      ]),
    [t, language, resultOf, canAct, onSwitch],
  );
  return <TableView label={t("title")} rows={tasks} columns={columns} rowKey={nameOf} />;
}

const nameOf = ({ name }: Task) => name;

function Verdict({ task }: { task: Task }) {
  const { t } = useTranslation("tasks");
  const verdict = verdictOf(task);
  return (
    <Badge color={COLOURS[verdict]} variant="light" data-verdict={verdict}>
      {t(`verdict.${verdict}`)}
    </Badge>
  );
}

function Switch({ task, onClose }: { task: Task; onClose: () => void }) {
  const { t } = useTranslation("tasks");
  // The page goes on refreshing: what was asked for stays what it was.
  const [isOn] = useState(!task.is_enabled);
  return (
    <ChangeDialog
      onClose={onClose}
      title={t(isOn ? "enable_title" : "disable_title", { name: task.name })}
      confirmName={isOn ? undefined : task.name}
      actionLabel={t(isOn ? "enable" : "disable")}
      doneMessage={t(isOn ? "enabled" : "disabled", { name: task.name })}
      run={(attempt) => switchTask(task.name, isOn, attempt)}
      refreshes={[tasksKey]}
    />
  );
}
