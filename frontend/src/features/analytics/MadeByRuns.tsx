import { Anchor, Badge, Group, Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { DEMO_JOB, type Rows } from "@/features/analytics/queries";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";

/** Up to when a table is filled, at which step it is read, and by which run it was made; made-up rows are said to be. */
export function MadeByRuns({ answer }: { answer: Pick<Rows, "as_of" | "step" | "runs" | "state"> }) {
  const { t } = useTranslation("analytics");
  const [run] = answer.runs;
  if (answer.state === "no_run_yet") return null;
  return (
    <Group gap="xs">
      {answer.runs.some(({ job }) => job === DEMO_JOB) && (
        <Tooltip label={t("demo.hint")} multiline maw={320}>
          <Badge color="grape" tabIndex={0} data-demo="">
            {t("demo.label")}
          </Badge>
        </Tooltip>
      )}
      <Text size="sm" c="dimmed">
        {t(`step.${answer.step}`)} · {t("as_of")} <Instant at={answer.as_of} relative />
      </Text>
      {run && (
        <Anchor component={LinkTo} to="/analytics" search={{ tab: "runs", run: run.id } as never} size="sm">
          {t("made_by", { job: run.job, id: run.id })}
        </Anchor>
      )}
    </Group>
  );
}
