import { Alert, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { switchOverStep, type Outcome, type Planned } from "@/features/brokers/rehearse/queries";
import { useReason } from "@/ui/reasons";
import { DialogFooter } from "@/ui/dialog/Dialog";
import { useConfirmation } from "@/ui/dialog/useConfirmation";
import { useSteps } from "@/ui/dialog/useSteps";
import { LinkTo } from "@/ui/links/LinkTo";
import { ProblemText } from "@/ui/page/ProblemText";
import { defineColumns } from "@/ui/table/define";
import { PlainTable } from "@/ui/table/PlainTable";

/** A plan of switch-overs, and its work: group by group, with progress, a way to stop, and what became of each. */
export function SwitchOvers({
  groups,
  rehearsal,
  onWorking,
  onClose,
  onUndo,
}: {
  /** The plan of now; the one that the work began with is done. */
  groups: readonly Planned[];
  /** For the audit log; "": these undo one. */
  rehearsal: string;
  onWorking: (isWorking: boolean) => void;
  onClose: () => void;
  onUndo: () => void;
}) {
  const { t } = useTranslation("rehearsals");
  const [begun, setBegun] = useState<readonly Planned[] | null>(null);
  const shown = begun ?? groups;
  const able = shown.filter(({ to }) => to);
  const { reason, inputs } = useConfirmation({});
  const work = useSteps<Outcome>(switchOverStep(able, rehearsal, reason), { isWhole: true });
  const { state, done } = work;
  const isRunning = state === "running";
  const outcomes = new Map(work.found.map((outcome) => [outcome.group, outcome]));
  const failed = work.found.filter(({ problem }) => problem).length;
  useEffect(() => onWorking(isRunning), [onWorking, isRunning]);
  const hasEnded = state !== "idle" && !isRunning;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        setBegun(groups);
        work.start();
      }}
    >
      <Stack gap="md">
        {shown.length === 0 && <Text size="sm">{t(rehearsal ? "nothing" : "undo.nothing")}</Text>}
        {shown.length > 0 && <Plan groups={shown} outcomes={outcomes} running={isRunning ? able[done] : undefined} />}
        {state === "idle" && shown.length > able.length && (
          <Alert color="orange" title={t("not_able", { count: shown.length - able.length })}>
            <Text size="sm">{t(rehearsal ? "would_be_away" : "undo.later")}</Text>
          </Alert>
        )}
        {state === "idle" && able.length > 0 && inputs}
        {isRunning && (
          <Group gap="sm" wrap="nowrap">
            <Progress value={(100 * done) / able.length} className="grow" aria-label={t("progress")} />
            <Text size="sm" className="nowrap">
              {done} / {able.length}
            </Text>
            <Button size="xs" variant="default" onClick={work.cancel}>
              {t("common:action.stop")}
            </Button>
          </Group>
        )}
        {hasEnded && (
          <Text size="sm" fw={600} role="status">
            {t(state === "cancelled" ? "stopped" : "done", { done: done - failed, failed, all: able.length })}
          </Text>
        )}
        {hasEnded && rehearsal && done > failed && <Text size="sm">{t("undo_hint")}</Text>}
        <DialogFooter>
          <Button variant="default" onClick={onClose}>
            {t(begun ? "common:action.close" : "common:action.cancel")}
          </Button>
          {state === "cancelled" && (
            <Button variant="default" onClick={work.resume}>
              {t("common:action.go_on")}
            </Button>
          )}
          {hasEnded && rehearsal && done > failed && (
            <Button onClick={onUndo} data-action="undo">
              {t("undo.open")}
            </Button>
          )}
          {state === "idle" && (
            <Button type="submit" disabled={able.length === 0} data-action="apply">
              {t(rehearsal ? "do" : "undo.do", { count: able.length })}
            </Button>
          )}
        </DialogFooter>
      </Stack>
    </form>
  );
}

function Plan({
  groups,
  outcomes,
  running,
}: {
  groups: readonly Planned[];
  outcomes: ReadonlyMap<string, Outcome>;
  running: Planned | undefined;
}) {
  const { t } = useTranslation("rehearsals");
  const reasonOf = useReason();
  const result = (row: Planned) => {
    const outcome = outcomes.get(row.broker_group);
    if (outcome?.problem)
      return (
        <div data-outcome="failed">
          <ProblemText error={outcome.problem} c="red" className="break" />
        </div>
      );
    if (outcome) return <span data-outcome="done">{t("switched")}</span>;
    if (row === running) return t("switching");
    return row.to ? t("planned") : <span className="break">{reasonOf(row.why, row.reason)}</span>;
  };
  return (
    <PlainTable
      label={t("title")}
      columns={defineColumns<Planned>(
        (id) => t(`column.${id}`),
        (column) => [
          column("group", ({ broker_group: name }) => (
            <LinkTo to="/brokers/$name" params={{ name }} size="sm">
              {name}
            </LinkTo>
          )),
          column("from", ({ master }) => master),
          column("to", ({ to }) => to || "—"),
          column("result", result),
        ],
      )}
      rows={groups}
      rowKey={({ broker_group: name }) => name}
    />
  );
}
