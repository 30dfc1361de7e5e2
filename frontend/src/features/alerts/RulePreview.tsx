import { Alert, List, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { previewOptions, type RulePreviewed } from "@/features/alerts/queries";
import { toRule, type RuleDraft } from "@/features/alerts/ruleDraft";
import { spanOf } from "@/features/alerts/past";
import { conditionText, valueText } from "@/shared/alerts/words";
import { duration } from "@/format/times";
import { Instant } from "@/ui/measure/Instant";
import { loaded } from "@/ui/page/loaded";
import { useLanguage } from "@/ui/preferences";

const NAMED_MAX = 5;

/** Whether a rule would fire now and for what, and how often it would have fired: with the values, never a guess. */
export function RulePreview({ draft, rule }: { draft: RuleDraft; rule: string | undefined }) {
  const query = useQuery(previewOptions(toRule(draft), rule));
  const [found, instead] = loaded(query, null);
  if (!found) return instead;
  return (
    <Stack gap={6} data-rule-preview="">
      <Now found={found} draft={draft} />
      <Past found={found} />
    </Stack>
  );
}

function Now({ found, draft }: { found: RulePreviewed; draft: RuleDraft }) {
  const { t } = useTranslation("alerts");
  const language = useLanguage();
  const { kind } = draft;
  const condition = conditionText(kind, draft.threshold || 0, language, t);
  if (found.reason) {
    return <Text size="sm">{t("alert_pages:preview.no_data", { reason: found.reason })}</Text>;
  }
  if (found.matched === 0) {
    return (
      <Alert color="yellow" p="xs" title={t("alert_pages:preview.none_matched")} data-warning="matched">
        {t("alert_pages:preview.none_matched_text", { target: draft.target })}
      </Alert>
    );
  }
  const seconds = draft.for_seconds || 0;
  return (
    <div>
      <Text size="sm" fw={600} data-fires-now={found.above > 0}>
        {found.above > 0
          ? t("alert_pages:preview.fires", { count: found.above, matched: found.matched })
          : t("alert_pages:preview.quiet", { count: found.matched, condition })}
        {found.above > 0 && seconds > 0 && ` ${t("alert_pages:preview.after", { time: duration(seconds, language) })}`}
      </Text>
      <List size="sm">
        {found.targets.slice(0, NAMED_MAX).map(({ target, value, retries }) => (
          <List.Item key={target}>
            <code className="break">{target}</code> {valueText(kind, value, language, t)}
            {retries ? ` (${t("retries", { count: retries })})` : ""}
          </List.Item>
        ))}
        {found.above > NAMED_MAX && (
          <List.Item>{t("alert_pages:preview.more", { count: found.above - NAMED_MAX })}</List.Item>
        )}
      </List>
      {found.unmeasured > 0 && (
        <Text size="sm" c="dimmed">
          {t("alert_pages:preview.unmeasured", { count: found.unmeasured })}
        </Text>
      )}
    </div>
  );
}

function Past({ found }: { found: RulePreviewed }) {
  const { t } = useTranslation("alerts");
  const language = useLanguage();
  const { past } = found;
  const span = spanOf(past.spans);
  return (
    <div>
      <Text size="sm" fw={600} data-fired-before={span ? past.count : undefined}>
        {span === null
          ? t("alert_pages:preview.no_past")
          : t(past.count ? "alert_pages:preview.past" : "alert_pages:preview.past_quiet", {
              count: past.count,
              time: duration(span.seconds, language),
            })}
      </Text>
      {past.count > 0 && (
        <List size="sm">
          {past.targets.slice(0, NAMED_MAX).map(({ target, count }) => (
            <List.Item key={target}>
              <code className="break">{target}</code> {t("alert_pages:preview.times", { count })}
            </List.Item>
          ))}
          {past.targets_count > NAMED_MAX && (
            <List.Item>{t("alert_pages:preview.more", { count: past.targets_count - NAMED_MAX })}</List.Item>
          )}
        </List>
      )}
      {span?.isShort && (
        <Text size="sm" c="dimmed">
          {t("alert_pages:preview.looked_at")}
        </Text>
      )}
      {past.spans.map(({ stored_in, begin, end }) => (
        <Text size="xs" c="dimmed" key={stored_in}>
          {t(`alert_pages:preview.source.${stored_in}`)}: <Instant at={begin} /> – <Instant at={end} />
        </Text>
      ))}
      {past.left_out > 0 && (
        <Text size="xs" c="dimmed">
          {t("alert_pages:preview.left_out", { count: past.left_out })}
        </Text>
      )}
      {found.fired !== null && (
        <Text size="sm" data-fired={found.fired}>
          {t("alert_pages:preview.fired", { count: found.fired })}
        </Text>
      )}
    </div>
  );
}
