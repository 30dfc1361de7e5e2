import { Button, Progress, Stack, Text } from "@mantine/core";
import { useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useRef, useState, type ComponentProps, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { count } from "@/format/numbers";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { eachOf, useSteps } from "@/ui/dialog/useSteps";

type Confirmation<Preview> = Omit<
  ComponentProps<typeof PreviewDialog<Preview>>,
  "opened" | "run" | "refreshes" | "onDone"
>;

interface Props<Preview, Item, Result> extends Confirmation<Preview> {
  /** The dry run of all. */
  preview: () => Promise<Preview>;
  /** The pieces of the work that was previewed. */
  itemsOf: (preview: Preview) => readonly Item[];
  one: (item: Item, reason: string, signal: AbortSignal) => Promise<Result>;
  /** What the work came to so far. */
  result: (results: readonly Result[]) => ReactNode;
  onStarted?: () => void;
  /** What is out of date after the work, whether it was finished or not. */
  refreshes: readonly QueryKey[];
}

/** Long work: previewed and confirmed, then done piece by piece, with progress and a way to stop and continue it. */
export function PreviewedWork<Preview, Item, Result>({
  preview,
  itemsOf,
  one,
  result,
  onStarted,
  refreshes,
  onClose,
  ...confirmation
}: Props<Preview, Item, Result>) {
  const { t } = useTranslation();
  const language = useLanguage();
  const client = useQueryClient();
  const previewed = useRef<Preview | null>(null);
  // What was confirmed; the steps read it, nothing draws it.
  const work = useRef<{ items: readonly Item[]; reason: string }>({ items: [], reason: "" });
  const [total, setTotal] = useState<number | null>(null);
  const isConfirmed = useRef(false);
  const { found, state, done, error, start, cancel, resume, reset } = useSteps<Result>((cursor, signal) =>
    eachOf(work.current.items, (item) => one(item, work.current.reason, signal))(cursor, signal),
  );
  if (total === null) {
    return (
      <PreviewDialog<Preview>
        {...confirmation}
        // It closes itself when it was confirmed too: then the progress is shown.
        onClose={() => {
          if (!isConfirmed.current) onClose();
        }}
        run={async ({ dryRun, reason }) => {
          if (dryRun || previewed.current === null) return (previewed.current = await preview());
          work.current = { items: itemsOf(previewed.current), reason };
          return previewed.current;
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
    for (const queryKey of refreshes) void client.invalidateQueries({ queryKey });
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
        {(total !== 1 || state !== "finished") && (
          <>
            <Progress value={total === 0 ? 100 : (done / total) * 100} aria-label={confirmation.title} />
            <Text size="sm" aria-live="polite">
              {t(`progress.${state}`, { done: count(done, language), total: count(total, language) })}
            </Text>
          </>
        )}
        <div aria-live="polite">{result(found)}</div>
        {state === "failed" && <ProblemAlert error={error} onRetry={resume} />}
        <DialogFooter>
          {state === "running" && (
            <Button variant="default" onClick={cancel}>
              {t("action.stop")}
            </Button>
          )}
          {state === "cancelled" && (
            <Button variant="default" onClick={resume}>
              {t("action.go_on")}
            </Button>
          )}
          <Button variant="default" onClick={close}>
            {t("action.close")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
