import { Badge, Group, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { DEMO_JOB, type Rows } from "@/features/analytics/queries";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";

type Answer = Pick<Rows, "as_of" | "step" | "runs" | "state" | "missing" | "holes" | "late_rows">;

/** Up to when a table is filled, at which step it is read, which run made it, and what is missing in it. */
export function MadeByRuns({ answer }: { answer: Answer }) {
  const { t } = useTranslation("analytics");
  const [run] = answer.runs;
  if (answer.state === "no_run_yet") return null;
  const { missing, holes, late_rows: late } = answer;
  const marks = [
    { id: "demo", color: "grape", isShown: answer.runs.some(({ job }) => job === DEMO_JOB), values: {} },
    { id: "partial", color: "yellow", isShown: missing.length > 0, values: { groups: missing.join(", ") } },
    { id: "holes", color: "yellow", isShown: holes > 0, values: { count: holes } },
    { id: "late", color: "gray", isShown: late > 0, values: { count: late } },
  ];
  return (
    <Group gap="xs">
      {marks.map(
        ({ id, color, isShown, values }) =>
          isShown && (
            <Badge
              key={id}
              data-hint={t(`${id}.hint`)}
              color={color}
              tabIndex={0}
              tt="none"
              {...{ [`data-${id}`]: "" }}
            >
              {t(`${id}.label`, values)}
            </Badge>
          ),
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

/** How many rows are left out of minutes and ten minutes, and which; nothing where none is. */
export function Omission({ omission }: { omission: Rows["omission"] }) {
  const { t } = useTranslation("analytics");
  if (!omission) return null;
  const { left_out_count: count, rows_count: rows, ranked_by: column } = omission;
  return (
    <Text size="sm" c="dimmed" data-omission="">
      {t("omission", { count, rows, column: t(`column.${column}`) })}
    </Text>
  );
}
