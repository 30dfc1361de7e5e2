import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Run } from "@/features/analytics/queries";

const COLOURS = { running: "blue", succeeded: "teal", failed: "red" } as const;

/** Running, done, or failed. */
export function RunState({ state }: { state: Run["state"] }) {
  const { t } = useTranslation("analytics");
  return (
    <Badge variant="light" color={COLOURS[state]} data-state={state}>
      {t(`state.${state}`)}
    </Badge>
  );
}

/** How long it took; null while it runs. */
export function secondsOfRun(run: Pick<Run, "started_at" | "finished_at">): number | null {
  return run.finished_at === null ? null : (Date.parse(run.finished_at) - Date.parse(run.started_at)) / 1000;
}
