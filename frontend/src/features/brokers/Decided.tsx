import { Alert, List, Stack, Text } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import type { GroupVerdict } from "@/features/brokers/topology/cluster";
import { movesOptions, type BrokerGroupDetail } from "@/features/brokers/queries";
import { Instant } from "@/ui/measure/Instant";
import { useJobError, useJobResult } from "@/shared/jobResult";
import { LinkTo } from "@/ui/links/LinkTo";

/**
 * The operator's decision about the group, its time and reason, and the progress of a drain; or that it waits for
 * approval.
 */
export function Decided({ group, verdict }: { group: BrokerGroupDetail; verdict: GroupVerdict }) {
  const { t } = useTranslation("brokers");
  const state = group.operator_state;
  if (state === "normal") return null;
  return (
    <Alert
      color={state === "draining" ? "blue" : "yellow"}
      icon={<IconInfoCircle aria-hidden />}
      title={t(`decided_title.${state}`)}
      data-decided={state}
    >
      <Stack gap="xs">
        <Text size="sm">{t(`means.${state}`)}</Text>
        <Text size="sm" c="dimmed">
          {t("since")} <Instant at={group.operator_since ?? group.created_at} relative />
          {group.operator_reason && ` · ${group.operator_reason}`}
        </Text>
        {state === "draining" && <Drain group={group} verdict={verdict} />}
      </Stack>
    </Alert>
  );
}

/** The steps of a drain: which are done, which is on, what is waited for. */
function Drain({ group, verdict }: { group: BrokerGroupDetail; verdict: GroupVerdict }) {
  const { t } = useTranslation("brokers");
  const isEmpty = group.subjects === 0;
  const isStopped = verdict === "offline";
  const steps: { id: string; isDone: boolean; text: string }[] = [
    { id: "closed", isDone: true, text: t("drain.closed") },
    { id: "moved", isDone: isEmpty, text: isEmpty ? t("drain.moved") : t("drain.left", { count: group.subjects }) },
    { id: "stopped", isDone: isEmpty && isStopped, text: t("drain.stop") },
    { id: "removed", isDone: false, text: t("drain.remove") },
  ];
  const on = steps.findIndex(({ isDone }) => !isDone);
  return (
    <>
      <List size="sm" listStyleType="none" spacing={4} data-left={group.subjects}>
        {steps.map(({ id, isDone, text }, index) => (
          <List.Item
            key={id}
            data-step={id}
            data-done={isDone || undefined}
            aria-current={index === on ? "step" : undefined}
          >
            <Text span inherit fw={index === on ? 600 : 400} c={index > on ? "dimmed" : undefined}>
              {isDone ? "✓" : index === on ? "→" : "·"} {text}
              <span className="sr-only"> {t(isDone ? "drain.done" : index === on ? "drain.on" : "drain.later")}</span>
            </Text>
          </List.Item>
        ))}
      </List>
      {!isEmpty && <Waiting />}
    </>
  );
}

function Waiting() {
  const { t } = useTranslation("brokers");
  const resultOf = useJobResult();
  const errorOf = useJobError();
  const { data: moves } = useQuery(movesOptions());
  if (!moves) return null;
  const problem = !moves.is_enabled ? t("drain.job_off") : errorOf(moves) || (moves.is_late ? t("drain.job_late") : "");
  return (
    <Text size="sm" className="break" data-waiting="">
      {t("drain.job_says")}{" "}
      <Text span inherit c={problem ? "red" : undefined}>
        {problem || resultOf(moves) || "—"}
      </Text>{" "}
      <LinkTo to="/jobs" size="sm">
        {t("drain.jobs")}
      </LinkTo>
    </Text>
  );
}
