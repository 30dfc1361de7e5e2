import "@/features/analytics/analytics.css";
import { Progress, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { runningOptions } from "@/features/analytics/queries";
import { percent } from "@/format/numbers";
import { LinkTo } from "@/ui/links/LinkTo";
import { Instant } from "@/ui/measure/Instant";
import { useLanguage } from "@/ui/preferences";

/** What a run of the jobs is doing: which part of all, and since when; nothing while none runs. */
export function RunProgress() {
  const { t } = useTranslation("analytics");
  const language = useLanguage();
  const run = useQuery(runningOptions()).data?.results[0];
  if (!run) return null;
  const { job, part, parts } = run;
  // Parts that are done.
  const done = part === null || parts === null ? null : (part - 1) / parts;
  return (
    <span className="run-progress" data-running={job}>
      {done !== null && <Progress w={90} value={done * 100} aria-label={t("progress.progress")} />}
      <Text span size="sm" c="dimmed">
        <LinkTo to="/analytics" search={{ tab: "runs", run: run.id }} size="sm">
          {done === null && job === "ingest" ? t("progress.reading") : t("progress.running", { job })}
        </LinkTo>
        {done !== null && ` · ${t("progress.part", { part, parts })} (${percent(done, language)})`}
        {` · ${t("progress.since")} `}
        <Instant at={run.started_at} relative />
      </Text>
    </span>
  );
}
