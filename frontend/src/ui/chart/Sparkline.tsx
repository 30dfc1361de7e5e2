import { useMemo } from "react";
import type { ChartColour } from "@/ui/chart/types";
import { SPARK_HEIGHT, SPARK_WIDTH, sparkPath } from "@/ui/chart/spark";

/**
 * How a number developed, as a small line beside it: no axes, no interaction. It repeats what a chart or a table of the
 * page has, so assistive technology skips it. It keeps its height without values.
 */
export function Sparkline({
  values,
  colour = "blue",
}: {
  values: readonly (number | null)[];
  colour?: ChartColour | undefined;
}) {
  const line = useMemo(() => sparkPath(values), [values]);
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
      preserveAspectRatio="none"
      height={SPARK_HEIGHT}
      width="100%"
      aria-hidden
      data-sparkline={line ? "drawn" : "empty"}
    >
      {line && <path d={line} stroke={`var(--mantine-color-${colour}-6)`} vectorEffect="non-scaling-stroke" />}
    </svg>
  );
}
