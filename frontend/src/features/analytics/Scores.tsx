import { Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Rows } from "@/features/analytics/queries";
import { Measured } from "@/ui/measure/Measured";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns, headers } from "@/ui/table/define";

type Score = Rows["scores"][number];

const percent = (ratio: number) => Math.round(ratio * 1000) / 10;

/** How often the recent forecasts or flags of a table held; that it is not known yet, where too few came due. */
export function Scores({ scores }: { scores: readonly Score[] }) {
  const forecasts = scores.filter(({ is_trusted }) => is_trusted !== null);
  return (
    <>
      {forecasts.length > 0 && <ScoresOfForecasts scores={forecasts} />}
      {scores.map((score) => score.is_trusted === null && <ScoreOfFlags key={score.scored} score={score} />)}
    </>
  );
}

/** A row for each class of forecasts. */
function ScoresOfForecasts({ scores }: { scores: readonly Score[] }) {
  const { t } = useTranslation("analytics");
  const columns = useMemo(
    () =>
      defineColumns<Score>(headers(t), (column) => [
        column("case_class", { isFixed: true }, (score) => t(`case_class.${score.case_class}`)),
        column("cases_count", { align: "right" }, (score) => <Measured value={score.cases_count} as="count" />),
        column("held_ratio", { align: "right" }, (score) => (
          <Measured value={score.held_ratio} as="percent" unknown={t("score.not_known")} />
        )),
        column("below_count", { align: "right" }, (score) => <Measured value={score.below_count} as="count" />),
        column("above_count", { align: "right" }, (score) => <Measured value={score.above_count} as="count" />),
        column("width_ratio_mean", { align: "right" }, (score) => (
          <Measured value={score.width_ratio_mean} as={score.scored === "disk_forecasts" ? "percent" : "rate"} />
        )),
        column("is_trusted", {}, (score) => (
          <Text size="sm" c={score.held_ratio !== null && !score.is_trusted ? "orange" : undefined}>
            {t(score.is_trusted ? "score.used" : score.held_ratio === null ? "score.too_few" : "score.not_used")}
          </Text>
        )),
      ]),
    [t],
  );
  const [{ scored, days } = { scored: "", days: 0 }] = scores;
  const targets = scores.flatMap(({ target_ratio }) => target_ratio ?? []);
  return (
    <Stack gap={4} data-score={scored}>
      <Text size="sm" c="dimmed">
        {t("score.forecasts", { days })}{" "}
        {targets.length > 0 && t("score.target", { target: percent(Math.max(...targets)) })} {t(`score.${scored}`)}
      </Text>
      <PlainTable
        label={t("score.label")}
        columns={columns}
        rows={scores}
        rowKey={({ case_class }) => case_class}
        minWidth={760}
      />
    </Stack>
  );
}

function ScoreOfFlags({ score }: { score: Score }) {
  const { t } = useTranslation("analytics");
  const { held_ratio: held, cases_count: cases, days } = score;
  return (
    <Text size="sm" c="dimmed" data-score={score.scored}>
      {held === null
        ? t(`score.${score.scored}.unverified`, { cases, days })
        : t(`score.${score.scored}.held`, { cases, days, rest: percent(1 - held) })}
    </Text>
  );
}
