import { Button, Group, Progress, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { percent } from "@/format/numbers";
import type { Steps } from "@/ui/dialog/useSteps";
import { useLanguage } from "@/ui/preferences";

interface Props {
  steps: Pick<Steps<unknown>, "state" | "cancel" | "resume">;
  /** 0..1. */
  progress: number;
  /** It ended before its end. */
  isIncomplete?: boolean;
  /** What the progress is of. */
  label: string;
  /** Continues where the limit of what is found is reached. */
  more: string;
  /** What else can be done, at the end. */
  children?: ReactNode;
}

/** How far a search in steps is, and what stops or continues it; a failed one is continued at its problem. */
export function StepsBar({
  steps: { state, cancel, resume },
  progress,
  isIncomplete = false,
  label,
  more,
  children,
}: Props) {
  const { t } = useTranslation();
  const language = useLanguage();
  const done = state === "finished" && !isIncomplete ? 1 : progress;
  return (
    <Group gap="sm" wrap="nowrap">
      <Progress className="grow" value={done * 100} animated={state === "running"} aria-label={label} />
      <Text size="sm" className="nowrap">
        {percent(done, language)}
      </Text>
      {state === "running" && (
        <Button size="xs" variant="default" onClick={cancel}>
          {t("action.stop")}
        </Button>
      )}
      {(state === "cancelled" || state === "full") && (
        <Button size="xs" variant="default" onClick={resume}>
          {state === "full" ? more : t("action.go_on")}
        </Button>
      )}
      {children}
    </Group>
  );
}
