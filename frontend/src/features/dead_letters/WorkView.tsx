import { Alert, Button, Group, List, Progress, Stack, Text } from "@mantine/core";
import { useRef } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Progress as Answer } from "@/features/dead_letters/queries";
import { ask, NO_SUMS, summed, type Action, type Order, type Sums } from "@/features/dead_letters/work";
import { count } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Unreachable } from "@/ui/measure/Unreachable";
import { useSteps, type Steps } from "@/ui/dialog/useSteps";
import { Sent } from "@/ui/Sent";
import { useSentence } from "@/i18n/useSentence";

export type Work = Steps<Answer> & { sums: Sums };

const WHOLE = { foundMax: Infinity, isWhole: true };

/**
 * An order, or its dry run, piece by piece. Leaving the page ends it after the piece under way. `previewed`: the pieces
 * of the dry run, whose counts those of the order have to repeat. After a piece that ended early or failed they are
 * others, and are counted again.
 */
export function useWork(order: Order, previewed?: readonly Answer[]): Work {
  const isAsPreviewed = useRef(true);
  const steps = useSteps<Answer>(async (cursor, _, pieces) => {
    if (previewed === undefined) return stepOf(await ask(order, cursor, true));
    const wasAsPreviewed = isAsPreviewed.current;
    isAsPreviewed.current = false;
    const counted = wasAsPreviewed || order.chosen.kind === "some" ? previewed[pieces] : await ask(order, cursor, true);
    const answer = await ask(order, cursor, false, counted?.done ?? 0);
    isAsPreviewed.current = wasAsPreviewed && answer.stopped === null;
    return stepOf(answer);
  }, WHOLE);
  return { ...steps, sums: steps.found.reduce(summed, NO_SUMS) };
}

function stepOf(answer: Answer) {
  return { found: [answer], next: answer.next, done: answer.looked_at, stopped: answer.stopped };
}

/** Work under way: how far it is, and a way to stop it. `total` null: not known beforehand. */
export function Running({ work, total, label }: { work: Work; total: number | null; label: string }) {
  const { t } = useTranslation("dead_letters");
  const language = useLanguage();
  const { looked_at } = work.sums;
  return (
    <Stack gap="xs" data-work="running">
      <Group justify="space-between">
        <Text size="sm" role="status">
          {label}{" "}
          {total === null
            ? t("looked_at", { shown: count(looked_at, language) })
            : t("looked_at_of", { shown: count(looked_at, language), total: count(total, language) })}
        </Text>
        <Button size="xs" variant="default" onClick={work.cancel}>
          {t("common:action.stop")}
        </Button>
      </Group>
      <Progress value={total ? Math.min(100, (100 * looked_at) / total) : 100} animated aria-label={label} />
    </Stack>
  );
}

const OTHERS = ["already", "under_way", "unknown", "failed"] as const;

/** What work came to, or would come to. */
export function Outcome({ work, action, isPreview }: { work: Work; action: Action; isPreview: boolean }) {
  const { t } = useTranslation("dead_letters");
  const language = useLanguage();
  const sentence = useSentence();
  const { sums, state, why, error } = work;
  const colour = sums.failed > 0 || sums.unknown > 0 ? "orange" : isPreview ? "blue" : "teal";
  return (
    <Stack gap="xs" data-work={state} data-preview={isPreview ? "" : undefined}>
      <Alert color={colour} title={t(`outcome.${state}${isPreview ? "_preview" : ""}`)}>
        <List size="sm">
          <List.Item data-sum="done">
            {t(`sum.${action}${isPreview ? "_preview" : ""}`, { count: sums.done, shown: count(sums.done, language) })}
          </List.Item>
          {OTHERS.filter((name) => sums[name] > 0).map((name) => (
            <List.Item key={name} data-sum={name}>
              {t(`sum.${name}`, { count: sums[name], shown: count(sums[name], language) })}
            </List.Item>
          ))}
          {sums.failures.map((failure) => (
            <List.Item key={`${failure.broker_group}:${failure.sequence}`} className="break">
              {failure.broker_group} · {failure.sequence}: <Sent text={failure.why} />
            </List.Item>
          ))}
          {sums.done > 0 && <List.Item>{t(`note.${action}`)}</List.Item>}
        </List>
        {why !== null && (
          <Text size="sm" mt="xs">
            {t("stopped_why", { why: sentence(why) })}
          </Text>
        )}
      </Alert>
      <Unreachable of={sums.unreachable} />
      {state === "failed" && <ProblemAlert error={error} />}
    </Stack>
  );
}
