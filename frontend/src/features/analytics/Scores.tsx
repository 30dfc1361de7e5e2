import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Rows } from "@/features/analytics/queries";

type Score = Rows["scores"][number];

const percent = (ratio: number) => Math.round(ratio * 1000) / 10;

/** How often the forecasts or flags of a table held lately; that nothing is verified yet, where too few came due. */
export function Scores({ scores }: { scores: readonly Score[] }) {
  const { t } = useTranslation("analytics");
  return (
    <>
      {scores.map((score) => {
        const { held_ratio: held, target_ratio: target, cases_count: cases, days } = score;
        const isBelow = held !== null && target !== null && held < target;
        return (
          <Text key={score.scored} size="sm" c={isBelow ? "orange" : "dimmed"} data-score={score.scored}>
            {held === null
              ? t(`score.${score.scored}.unverified`, { cases, days })
              : t(`score.${score.scored}.held`, {
                  cases,
                  days,
                  held: percent(held),
                  rest: percent(1 - held),
                  target: target === null ? "" : percent(target),
                })}
          </Text>
        );
      })}
    </>
  );
}
