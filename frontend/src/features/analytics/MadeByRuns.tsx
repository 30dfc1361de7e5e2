import { Badge, Group, Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { DEMO_JOB, type Rows } from "@/features/analytics/queries";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";

type Answer = Pick<Rows, "as_of" | "step" | "runs" | "state" | "missing" | "holes" | "late_rows">;

/** Up to when a table is filled, at which step it is read, which run made it, and what is missing in it. */
export function MadeByRuns({ answer }: { answer: Answer }) {
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
      {answer.missing.length > 0 && (
        <Tooltip label={t("partial.hint")} multiline maw={320}>
          <Badge color="yellow" tabIndex={0} tt="none" data-partial="">
            {t("partial.label", { groups: answer.missing.join(", ") })}
          </Badge>
        </Tooltip>
      )}
      {answer.holes > 0 && (
        <Tooltip label={t("holes.hint")} multiline maw={320}>
          <Badge color="yellow" tabIndex={0} tt="none">
            {t("holes.label", { count: answer.holes })}
          </Badge>
        </Tooltip>
      )}
      {answer.late_rows > 0 && (
        <Tooltip label={t("late.hint")} multiline maw={320}>
          <Badge color="gray" tabIndex={0} tt="none">
            {t("late.label", { count: answer.late_rows })}
          </Badge>
        </Tooltip>
      )}
      <Text size="sm" c="dimmed">
        {t(`step.${answer.step}`)} · {t("as_of")} <Instant at={answer.as_of} relative />
      </Text>
      {run && (
        <LinkTo to="/analytics" search={{ tab: "runs", run: run.id }} size="sm">
          {t("made_by", { job: run.job, id: run.id })}
        </LinkTo>
      )}
    </Group>
  );
}
