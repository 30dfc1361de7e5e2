import { Button, Progress, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState, type ComponentProps, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { delayedKey } from "@/features/delayed/queries";
import { count } from "@/format/numbers";
import { PlanDialog } from "@/ui/dialog/ChangeDialog";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { eachOf, useSteps } from "@/ui/dialog/useSteps";

type Confirmation<Plan> = Omit<ComponentProps<typeof PlanDialog<Plan>>, "opened" | "run" | "refreshes" | "onDone">;

interface Props<Plan, Item, Result> extends Confirmation<Plan> {
  /** The dry run of all. */
  plan: () => Promise<Plan>;
  /** The pieces of the work that was planned. */
  itemsOf: (plan: Plan) => readonly Item[];
  one: (item: Item, reason: string, signal: AbortSignal) => Promise<Result>;
  /** What the work came to so far. */
  result: (results: readonly Result[]) => ReactNode;
  onStarted?: () => void;
}

/** Long work: planned and confirmed, then done piece by piece, with its progress and a way to stop it and to go on. */
export function PlannedWork<Plan, Item, Result>({
  plan,
  itemsOf,
  one,
  result,
  onStarted,
  onClose,
  ...confirmation
}: Props<Plan, Item, Result>) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const client = useQueryClient();
  const planned = useRef<Plan | null>(null);
  // What was confirmed; the steps read it, nothing draws it.
  const work = useRef<{ items: readonly Item[]; reason: string }>({ items: [], reason: "" });
  const [total, setTotal] = useState<number | null>(null);
  const isConfirmed = useRef(false);
  const { found, state, done, error, start, cancel, resume, reset } = useSteps<Result>((cursor, signal) =>
    eachOf(work.current.items, (item) => one(item, work.current.reason, signal))(cursor, signal),
  );
  if (total === null) {
    return (
      <PlanDialog<Plan>
        {...confirmation}
        // It closes itself when it was confirmed too: then the progress is shown.
        onClose={() => {
          if (!isConfirmed.current) onClose();
        }}
        run={async ({ dryRun, reason }) => {
          if (dryRun || planned.current === null) return (planned.current = await plan());
          work.current = { items: itemsOf(planned.current), reason };
          return planned.current;
        }}
        onDone={() => {
          isConfirmed.current = true;
          setTotal(work.current.items.length);
          onStarted?.();
          start();
        }}
      />
    );
  }
  const close = () => {
    reset();
    void client.invalidateQueries({ queryKey: delayedKey });
    onClose();
  };
  return (
    <Dialog
      opened
      onClose={close}
      title={confirmation.title}
      size="lg"
      // Closing by a slip would stop it.
      closeOnClickOutside={state !== "running"}
    >
      <Stack data-progress={state}>
        <Progress value={total === 0 ? 100 : (done / total) * 100} aria-label={confirmation.title} />
        <Text size="sm" aria-live="polite">
          {t(`progress.${state}`, { done: count(done, language), total: count(total, language) })}
        </Text>
        {result(found)}
        {state === "failed" && <ProblemAlert error={error} onRetry={resume} />}
        <DialogFooter>
          {state === "running" && (
            <Button variant="default" onClick={cancel}>
              {t("common:action.stop")}
            </Button>
          )}
          {state === "cancelled" && (
            <Button variant="default" onClick={resume}>
              {t("common:action.go_on")}
            </Button>
          )}
          <Button variant="default" onClick={close}>
            {t("common:action.close")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
