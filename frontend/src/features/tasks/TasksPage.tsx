import { Badge, Button, Center, Group, Loader, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { switchTask, tasksOptions, type Task } from "@/features/tasks/queries";
import { COLOURS, verdictOf } from "@/features/tasks/verdict";
import { sequence } from "@/format/numbers";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { PageHeader } from "@/ui/PageHeader";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { RunNow, tasksKey } from "@/ui/RunNow";
import { TableView } from "@/ui/table/TableView";
import type { Column } from "@/ui/table/types";

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
  const canAct = may("change_cluster");
  const columns = useMemo<Column<Task>[]>(
    () => [
      {
        id: "name",
        header: t("column.name"),
        isFixed: true,
        cell: (task) => (
          <Stack gap={0} miw={200}>
            <b>{task.name}</b>
            <Text size="xs" c="dimmed" fw={400}>
              {t(`job.${task.name}`, { defaultValue: task.text })}
            </Text>
          </Stack>
        ),
      },
      { id: "state", card: "state", header: t("column.state"), cell: (task) => <Verdict task={task} /> },
      {
        id: "last",
        card: "fact",
        header: t("column.last"),
        cell: (task) => <Instant at={task.finished_at} relative />,
      },
      {
        id: "result",
        card: "line",
        header: t("column.result"),
        cell: (task) => (
          <Text size="sm" c={task.error ? "red" : undefined} className="break" miw={200}>
            {task.error || task.result || "—"}
          </Text>
        ),
      },
      {
        id: "next",
        card: "fact",
        header: t("column.next"),
        cell: (task) => (task.is_enabled ? <Instant at={task.next_run_at} relative /> : "—"),
      },
      {
        id: "every",
        card: "fact",
        header: t("column.every"),
        align: "right",
        cell: (task) => duration(task.every_seconds, language),
      },
      { id: "runs", header: t("column.runs"), align: "right", cell: (task) => sequence(task.runs) },
      { id: "failures", header: t("column.failures"), align: "right", cell: (task) => sequence(task.failures) },
      {
        id: "holder",
        header: t("column.holder"),
        cell: (task) => (
          <Stack gap={0} className="nowrap">
            {task.holder || "—"}
            <Text size="xs" c="dimmed">
              {t("queue", { name: task.queue })}
            </Text>
          </Stack>
        ),
      },
      ...(canAct
        ? [
            {
              id: "action",
              card: "action" as const,
              header: t("column.action"),
              cell: (task: Task) => (
                <Group gap="xs" wrap="nowrap">
                  {task.is_enabled && <RunNow name={task.name} size="compact-sm" disabled={task.is_running} />}
                  <Button size="compact-sm" variant="default" onClick={() => onSwitch(task)}>
                    {task.is_enabled ? t("disable") : t("enable")}
                  </Button>
                </Group>
              ),
            },
          ]
        : []),
    ],
    [t, language, canAct, onSwitch],
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
  const client = useQueryClient();
  // The page goes on refreshing: what was asked for stays what it was.
  const [isOn] = useState(!task.is_enabled);
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t(isOn ? "enable_title" : "disable_title", { name: task.name })}
      confirmName={isOn ? undefined : task.name}
      actionLabel={t(isOn ? "enable" : "disable")}
      doneMessage={t(isOn ? "enabled" : "disabled", { name: task.name })}
      run={(attempt) => switchTask(task.name, isOn, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: tasksKey })}
    />
  );
}
