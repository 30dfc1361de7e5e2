import { queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";
import { useRuleName } from "@/shared/ruleNames";
import type { Threshold } from "@/ui/chart/types";
import { inFull } from "@/ui/chart/words";
import type { Format } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";

type Kind = Schema<"AlertRuleRow">["kind"];
/** By the kind of a rule: how a chart shows its value, on which axis, and what a unit of its threshold is there. */
export type Lines = Partial<Record<Kind, { as: Format; axis: "left" | "right"; scale?: number | null }>>;

const RULES_MAX = 100;
const REFRESH_MS = 60_000;

function rulesOptions(target: string) {
  const query = { concerns: target, is_enabled: true, limit: RULES_MAX };
  return queryOptions({
    queryKey: ["alert-rules", "concerning", target],
    queryFn: read("/api/v1/alert-rules/", { query }),
    staleTime: REFRESH_MS,
    refetchInterval: REFRESH_MS,
  });
}

export type RuleThreshold = Threshold & { kind: Kind };

/** Thresholds of the enabled rules that concern a target; undefined until they are read. */
function useThresholds(target: string, lines: Lines): readonly RuleThreshold[] | undefined {
  const { data } = useQuery(rulesOptions(target));
  const ruleName = useRuleName();
  const language = useLanguage();
  return useMemo(
    () =>
      data?.results.flatMap(({ name, kind, threshold, severity }) => {
        const line = lines[kind];
        if (!line || line.scale === null) return [];
        const value = threshold * (line.scale ?? 1);
        const label = `${ruleName(name)} (${inFull(value, line.as, language)})`;
        return [{ kind, value, label, axis: line.axis, tone: severity }];
      }),
    [data, lines, ruleName, language],
  );
}

/**
 * Reads thresholds for a chart that is drawn without them until then: charts don't wait for it. `lines` and `onRead`
 * have to stay the same objects.
 */
export function ThresholdReader({
  target,
  lines,
  onRead,
}: {
  target: string;
  lines: Lines;
  onRead: (thresholds: readonly RuleThreshold[] | undefined) => void;
}) {
  const thresholds = useThresholds(target, lines);
  useEffect(() => onRead(thresholds), [thresholds, onRead]);
  return null;
}
