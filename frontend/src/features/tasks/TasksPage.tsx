import { Badge, Button, Center, Group, Loader, Stack, Table, Text } from "@mantine/core";
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
    // A scrolled region has to be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" tabIndex={0} role="region" aria-label={t("title")}>
      <Table stickyHeader verticalSpacing="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("column.name")}</Table.Th>
            <Table.Th>{t("column.state")}</Table.Th>
            <Table.Th>{t("column.last")}</Table.Th>
            <Table.Th>{t("column.result")}</Table.Th>
            <Table.Th>{t("column.next")}</Table.Th>
            <Table.Th ta="right">{t("column.every")}</Table.Th>
            <Table.Th ta="right">{t("column.runs")}</Table.Th>
            <Table.Th ta="right">{t("column.failures")}</Table.Th>
            <Table.Th>{t("column.holder")}</Table.Th>
            {may("change_cluster") && (
              <Table.Th>
                <span className="sr-only">{t("column.action")}</span>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tasks.map((task) => {
            const verdict = verdictOf(task);
            return (
              <Table.Tr key={task.name} data-row={task.name}>
                <Table.Th scope="row" miw={220}>
                  <Stack gap={0}>
                    {task.name}
                    <Text size="xs" c="dimmed" fw={400}>
                      {t(`job.${task.name}`, { defaultValue: task.text })}
                    </Text>
                  </Stack>
                </Table.Th>
                <Table.Td>
                  <Badge color={COLOURS[verdict]} variant="light" data-verdict={verdict}>
                    {t(`verdict.${verdict}`)}
                  </Badge>
                </Table.Td>
                <Table.Td>
                  <Instant at={task.finished_at} relative />
                </Table.Td>
                <Table.Td className="break" miw={200}>
                  {task.error ? <Text c="red">{task.error}</Text> : task.result || "—"}
                </Table.Td>
                <Table.Td>{task.is_enabled ? <Instant at={task.next_run_at} relative /> : "—"}</Table.Td>
                <Table.Td ta="right" className="nowrap">
                  {duration(task.every_seconds, language)}
                </Table.Td>
                <Table.Td ta="right">{sequence(task.runs)}</Table.Td>
                <Table.Td ta="right">{sequence(task.failures)}</Table.Td>
                <Table.Td className="nowrap">
                  <Stack gap={0}>
                    {task.holder || "—"}
                    <Text size="xs" c="dimmed">
                      {t("queue", { name: task.queue })}
                    </Text>
                  </Stack>
                </Table.Td>
                {may("change_cluster") && (
                  <Table.Td>
                    <Group gap="xs" wrap="nowrap" justify="flex-end">
                      {task.is_enabled && <RunNow task={task} />}
                      <Button size="compact-sm" variant="default" onClick={() => onSwitch(task)}>
                        {task.is_enabled ? t("disable") : t("enable")}
                      </Button>
                    </Group>
                  </Table.Td>
                )}
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </div>
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
