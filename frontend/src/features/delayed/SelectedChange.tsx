import { List, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { PreviewedWork } from "@/shared/PreviewedWork";
import { changeMessage, delayedKey, isTooLate, type Target } from "@/features/delayed/queries";
import type { Problem } from "@/api/problem";
import type { Attempt } from "@/api/requests";
import { ProblemText } from "@/ui/page/ProblemText";

/** Messages changed together: each takes two requests, and the API limits requests a minute. */
export const SELECTED_MAX = 50;

interface Verdict {
  id: string;
  /** Why nothing can be, or was, done with it; null when it can be, or was. */
  problem: Problem | null;
}

/**
 * Cancel or deliver some messages, one after the other: first what would become of each, then the change with its
 * progress.
 */
export function SelectedChange({
  operation,
  targets,
  onStarted,
  onClose,
}: {
  operation: "cancel" | "deliver";
  targets: readonly Target[];
  onStarted: () => void;
  onClose: () => void;
}) {
  const { t } = useTranslation("delayed");
  // The choice in the list ends when the work begins; the work continues with what was chosen.
  const [chosen] = useState(targets);
  const attempt = async (target: Target, how: Attempt, signal?: AbortSignal): Promise<Verdict> => {
    try {
      await changeMessage(operation, target, how, undefined, signal);
      return { id: target.message_id, problem: null };
    } catch (error) {
      if (!isTooLate(error)) throw error;
      return { id: target.message_id, problem: error };
    }
  };
  const subjects = new Set(chosen.map(({ subject }) => subject));
  return (
    <PreviewedWork
      refreshes={[delayedKey]}
      title={t(`selected.${operation}_title`, { count: chosen.length })}
      confirmName={subjects.size === 1 ? chosen[0]?.subject : String(chosen.length)}
      actionLabel={t(`selected.${operation}`, { count: chosen.length })}
      doneMessage={t("selected.started")}
      isWorthIt={(verdicts) => verdicts.some(({ problem }) => problem === null)}
      preview={async () => {
        const verdicts: Verdict[] = [];
        for (const target of chosen) verdicts.push(await attempt(target, { dryRun: true, reason: "" }));
        return verdicts;
      }}
      show={(verdicts) => <Verdicts verdicts={verdicts} did={t(`selected.${operation}_will`)} />}
      itemsOf={() => chosen}
      one={(target, reason, signal) => attempt(target, { dryRun: false, reason }, signal)}
      result={(verdicts) => <Verdicts verdicts={verdicts} did={t(`selected.${operation}_did`)} />}
      onStarted={onStarted}
      onClose={onClose}
    />
  );
}

function Verdicts({ verdicts, did }: { verdicts: readonly Verdict[]; did: string }) {
  const { t } = useTranslation("delayed");
  const late = verdicts.filter(({ problem }) => problem !== null);
  const fine = verdicts.filter(({ problem }) => problem === null);
  return (
    <Stack gap="xs">
      <Text size="sm" fw={600} data-done={fine.length}>
        {did}: {fine.length}
      </Text>
      {fine.length > 0 && (
        <Text size="xs" className="break" lineClamp={4}>
          {fine.map(({ id }) => id).join(", ")}
        </Text>
      )}
      {late.length > 0 && (
        <>
          <Text size="sm" fw={600} c="orange" data-late={late.length}>
            {t("selected.late", { count: late.length })}
          </Text>
          <List size="sm">
            {late.map(({ id, problem }) => (
              <List.Item key={id} className="break">
                <ProblemText error={problem} />
              </List.Item>
            ))}
          </List>
        </>
      )}
    </Stack>
  );
}
