import { Badge, Button, Center, Group, Loader, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { change, NOW } from "@/api/requests";
import { switchTask, tasksKey, tasksOptions, type Task } from "@/features/tasks/queries";
import { COLOURS, verdictOf } from "@/features/tasks/verdict";
import { sequence } from "@/format/numbers";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { PageHeader } from "@/ui/PageHeader";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns, headers } from "@/ui/table/define";

/** The background jobs: what each does, how its last run went, when it runs next. */
export default function TasksPage() {
  const { t } = useTranslation("tasks");
  const { data, error, isPending, refetch } = useQuery(tasksOptions());
  const [switching, setSwitching] = useState<Task | null>(null);
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} />
      {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
      {isPending && (
        <Center p="xl">
          <Loader />
        </Center>
      )}
      {data && <Loops tasks={data.results} onSwitch={setSwitching} />}
      {switching && <Switch task={switching} onClose={() => setSwitching(null)} />}
    </>
  );
}

function Loops({ tasks, onSwitch }: { tasks: readonly Task[]; onSwitch: (task: Task) => void }) {
  const { t } = useTranslation("tasks");
  const language = useLanguage();
  const may = useMay();
  return (
    <PlainTable
      label={t("title")}
      verticalSpacing="sm"
      columns={defineColumns<Task>(headers(t), (column) => [
        column("name", { isFixed: true }, ({ name, text }) => (
          <Stack gap={0} miw={220} fw={700}>
            {name}
            <Text size="xs" c="dimmed" fw={400}>
              {t(`job.${name}`, { defaultValue: text })}
            </Text>
          </Stack>
        )),
        column("state", (task) => {
          const verdict = verdictOf(task);
          return (
            <Badge color={COLOURS[verdict]} variant="light" data-verdict={verdict}>
              {t(`verdict.${verdict}`)}
            </Badge>
          );
        }),
        column("last", (task) => <Instant at={task.finished_at} relative />),
        column("result", ({ error, result }) => (
          <Text size="sm" className="break" miw={200} c={error ? "red" : undefined}>
            {error || result || "—"}
          </Text>
        )),
        column("next", (task) => (task.is_enabled ? <Instant at={task.next_run_at} relative /> : "—")),
        column("every", { align: "right" }, (task) => (
          <span className="nowrap">{duration(task.every_seconds, language)}</span>
        )),
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
        may("change_cluster") &&
          column("action", (task) => (
            <Group gap="xs" wrap="nowrap" justify="flex-end">
              {task.is_enabled && <RunNow task={task} />}
              <Button size="compact-sm" variant="default" onClick={() => onSwitch(task)}>
                {t(task.is_enabled ? "disable" : "enable")}
              </Button>
            </Group>
          )),
      ])}
      rows={tasks}
      rowKey={({ name }) => name}
    />
  );
}

function RunNow({ task }: { task: Task }) {
  const { t } = useTranslation("tasks");
  const client = useQueryClient();
  const run = useMutation({
    mutationFn: () => change("post", "/api/v1/tasks/{name}/run/", NOW, { path: { name: task.name } }),
    onSuccess: () => notifications.show({ message: t("started", { name: task.name }), color: "teal" }),
    onError: (error) => notifications.show({ message: error.message, color: "red" }),
    onSettled: () => client.invalidateQueries({ queryKey: tasksKey }),
  });
  return (
    <Button
      size="compact-sm"
      variant="default"
      disabled={task.is_running}
      loading={run.isPending}
      onClick={() => run.mutate()}
      aria-label={t("run_now_of", { name: task.name })}
    >
      {t("run_now")}
    </Button>
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
