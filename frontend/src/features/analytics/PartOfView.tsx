import { Alert, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { Charts } from "@/features/analytics/Charts";
import { DrainProjection } from "@/features/analytics/DrainProjection";
import { MadeByRuns, Omission } from "@/features/analytics/MadeByRuns";
import { rankingOptions, seriesOptions, type TableQuery } from "@/features/analytics/queries";
import type { Range } from "@/features/analytics/range";
import { RankingOfPart } from "@/features/analytics/RankingOfPart";
import { RowsOfPart } from "@/features/analytics/RowsOfPart";
import { Scores } from "@/features/analytics/Scores";
import { textIn } from "@/features/analytics/series";
import { choicesOf, type Part } from "@/features/analytics/views";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Teach } from "@/shared/Teach";
import { useUrlState } from "@/ui/links/urlState";

const RUN_THE_JOBS = `python manage.py analytics  # the jobs, over what the system has
make demo                   # or two weeks of simulated history`;

/**
 * One table: a chart of what is chosen, or of what stands out most; one row for each subject, group or node, or the
 * rows of the chosen one; and the runs that made it.
 */
export function PartOfView({ part, range }: { part: Part; range: Range }) {
  const { t } = useTranslation("analytics");
  const [search] = useUrlState();
  const choices = useMemo(() => choicesOf(part), [part]);
  const chosen = useMemo(() => {
    const found: TableQuery = {};
    for (const name of choices) if (search[name]) found[name] = search[name];
    return found;
  }, [choices, search]);
  const window = useMemo(() => ({ from: range.from, to: range.to }), [range]);
  const selection: TableQuery = useMemo(() => ({ ...window, ...part.fixed, ...chosen }), [window, part, chosen]);
  // A split chart adds up whatever is chosen; a line is of one subject and group.
  const isOne = part.split !== undefined || choices.every((name) => chosen[name] !== undefined);
  const isRanked = choices.some((name) => chosen[name] === undefined);
  const ranking = useQuery(rankingOptions(part.table, selection, part.rank, isRanked));
  const drawn: TableQuery | null = useMemo(() => {
    if (part.split) return selection;
    // A flag narrows the list, not the line: it is to show what was normal as well.
    const rest: TableQuery = { ...selection, is_flagged: undefined };
    if (isOne) return rest;
    const row = ranking.data?.results[0]?.row;
    if (!row) return null;
    return { ...rest, ...Object.fromEntries(choices.map((name) => [name, textIn(row, name)])) };
  }, [part, choices, selection, isOne, ranking.data]);
  const series = useQuery(seriesOptions(part.table, drawn));
  const answer = series.data ?? ranking.data;
  const failed = ranking.error ?? series.error;
  // Without a row that stands out there is nothing to draw.
  const isPending = !failed && (drawn ? series.isPending : !answer);
  return (
    <section data-part={part.id}>
      <Stack gap="sm">
        <Group justify="space-between" gap="xs">
          <Title order={2} size="h4">
            {t(`part.${part.id}`)}
          </Title>
          {answer && <MadeByRuns answer={answer} />}
        </Group>
        <Text size="sm" c="dimmed">
          {t(`what.${part.id}`)}
        </Text>
        {answer && answer.state === "filled" && <Scores scores={answer.scores} />}
        {answer && <Omission omission={answer.omission} />}
        {failed && (
          <ProblemAlert
            error={failed}
            onRetry={() => {
              if (ranking.isError) void ranking.refetch();
              if (series.isError) void series.refetch();
            }}
          />
        )}
        {answer?.state === "no_run_yet" ? (
          <Teach title={t("no_run.title")} code={RUN_THE_JOBS}>
            {t("no_run.text")}
          </Teach>
        ) : (
          <>
            {((drawn && series.data) || isPending) && (
              <Paper withBorder p="md" radius="md">
                {!part.split && choices.length > 0 && (
                  <Text size="sm" mb="xs" mih="1lh" data-drawn="">
                    {drawn && series.data && (
                      <>
                        {isOne ? t("drawn.chosen") : t("drawn.worst")}{" "}
                        <strong>{choices.map((name) => drawn[name] || t("no_group")).join(" · ")}</strong>
                      </>
                    )}
                  </Text>
                )}
                {series.data?.isCut && <Alert color="yellow">{t("cut")}</Alert>}
                {part.isProjected && series.data && drawn ? (
                  <DrainProjection
                    forecasts={series.data.results}
                    group={{ ...window, subject: drawn.subject, group: drawn.group }}
                  />
                ) : (
                  <Charts part={part} found={series.data} />
                )}
              </Paper>
            )}
            {ranking.data && isRanked && <RankingOfPart part={part} ranking={ranking.data} />}
            {answer && !isRanked && <RowsOfPart part={part} selection={selection} />}
          </>
        )}
      </Stack>
    </section>
  );
}
