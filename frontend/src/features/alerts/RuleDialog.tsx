import {
  Alert,
  Group,
  List,
  MultiSelect,
  NativeSelect,
  NumberInput,
  SegmentedControl,
  Stack,
  TextInput,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { limit } from "@/api/limits";
import { change } from "@/api/requests";
import { alertsKey, type AlertKind } from "@/api/alerts";
import { changeRule, channelsOptions, KINDS, SEVERITIES, type Rule } from "@/features/alerts/queries";
import { clearOf, isComplete, NEW_RULE, toRule, withKind, type RuleDraft } from "@/features/alerts/ruleDraft";
import { clearText, conditionText, isWord, valueText } from "@/shared/alerts/words";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { Labelled } from "@/ui/page/Labelled";
import { loaded } from "@/ui/page/loaded";
import { useLanguage } from "@/ui/preferences";
import { RulePreview } from "@/features/alerts/RulePreview";

/** Creates a rule, or changes one: when it fires, when it ends, who is notified. What it is about is decided once. */
export function RuleDialog({ rule, onClose }: { rule: Rule | null; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const [draft, setDraft] = useState<RuleDraft>(rule ?? NEW_RULE);
  const fields = fieldsOf(draft, (some) => setDraft({ ...draft, ...some }), "NewAlertRuleRequest");
  return (
    <ChangeDialog
      onClose={onClose}
      affects={draft.name.trim()}
      hides={draft.kind === "dead_letters" ? [] : ["window_seconds"]}
      wordOf={(field, value) =>
        (field === "kind" && typeof value === "string" && t(`kind.${value}`)) ||
        (field === "severity" && typeof value === "string" && t(`severity.${value}`)) ||
        undefined
      }
      also={
        <>
          <RulePreview draft={draft} rule={rule?.id} />
          <NotifiesNoOne chosen={draft.channels} />
        </>
      }
      title={rule ? t("alert_pages:rule.edit", { name: rule.name }) : t("alert_pages:rule.create")}
      actionLabel={t(rule ? "common:action.save" : "common:action.create")}
      doneMessage={t(rule ? "alert_pages:rule.changed" : "alert_pages:rule.created", { name: draft.name })}
      inputs={JSON.stringify(draft)}
      isReady={isComplete(draft)}
      run={(attempt) => {
        const { kind, ...values } = toRule(draft);
        if (rule) return changeRule(rule, values, attempt);
        return change("post", "/api/v1/alert-rules/", attempt, { body: { kind, ...values } });
      }}
      refreshes={[alertsKey]}
    >
      <Stack gap="sm">
        <TextInput label={t("column.name")} required data-autofocus {...fields.text("name")} />
        <Group grow align="flex-start">
          <NativeSelect
            label={t("column.kind")}
            description={t(`alert_pages:kind_about.${draft.kind}`)}
            disabled={rule !== null}
            value={draft.kind}
            data={KINDS.map((value) => ({ value, label: t(`kind.${value}`) }))}
            onChange={(event) => setDraft(withKind(draft, event.currentTarget.value as AlertKind))}
          />
          <TextInput label={t("column.target")} description={t("target_hint")} required {...fields.text("target")} />
        </Group>
        <Numbers draft={draft} fields={fields} />
        <Explanation draft={draft} />
        <Labelled label={t("column.severity")}>
          {(id) => (
            <SegmentedControl
              aria-labelledby={id}
              data={SEVERITIES.map((value) => ({ value, label: t(`severity.${value}`) }))}
              {...fields.chosen("severity")}
            />
          )}
        </Labelled>
        <Channels chosen={draft.channels} onChange={fields.chosen("channels").onChange} />
        <NotifiesNoOne chosen={draft.channels} />
      </Stack>
    </ChangeDialog>
  );
}

type Fields = ReturnType<typeof fieldsOf<RuleDraft, "NewAlertRuleRequest">>;

function Numbers({ draft, fields }: { draft: RuleDraft; fields: Fields }) {
  const { t } = useTranslation("alerts");
  const { kind, threshold } = draft;
  return (
    <>
      {kind === "group_state" && (
        <NativeSelect
          label={t("alert_pages:rule.fires_when")}
          value={threshold === "" ? 1 : threshold}
          data={[
            { value: "1", label: t("value.offline") },
            { value: "0", label: t("value.not_writable") },
          ]}
          onChange={(event) => fields.number("threshold").onChange(Number(event.currentTarget.value))}
        />
      )}
      <Group grow align="flex-end">
        {!isWord(kind) && (
          <NumberInput
            label={t("alert_pages:rule.threshold", { unit: t(`unit.${kind}`) })}
            required
            thousandSeparator=","
            {...fields.number("threshold")}
          />
        )}
        <NumberInput
          label={t(isWord(kind) ? "alert_pages:rule.fires_after" : "alert_pages:rule.for_seconds")}
          allowDecimal={false}
          {...fields.number("for_seconds")}
        />
      </Group>
      <Group grow align="flex-end">
        {!isWord(kind) && (
          <NumberInput
            label={t("alert_pages:rule.clear_threshold", { unit: t(`unit.${kind}`) })}
            placeholder={t("alert_pages:rule.clear_default")}
            thousandSeparator=","
            {...fields.number("clear_threshold")}
            max={threshold === "" ? undefined : threshold}
          />
        )}
        <NumberInput
          label={t(isWord(kind) ? "alert_pages:rule.resolves_after" : "alert_pages:rule.for_seconds")}
          allowDecimal={false}
          {...fields.number("clear_for_seconds")}
        />
      </Group>
      {kind === "dead_letters" && (
        <NumberInput
          label={t("alert_pages:rule.window_seconds")}
          allowDecimal={false}
          {...fields.number("window_seconds")}
        />
      )}
    </>
  );
}

/** The numbers as sentences: when it fires, when it ends, what happens in between. */
function Explanation({ draft }: { draft: RuleDraft }) {
  const { t } = useTranslation("alerts");
  const language = useLanguage();
  const { kind, threshold } = draft;
  if (threshold === "") return null;
  const clear = clearOf(draft);
  const value = (number: number) => valueText(kind, number, language, t);
  const lasting = (seconds: number | "") => duration(seconds || 0, language);
  const sentences = [
    t(draft.for_seconds ? "alert_pages:explain.fires" : "alert_pages:explain.fires_at_once", {
      when: t(`alert_pages:explain.when.${kind}`, { condition: conditionText(kind, threshold, language, t) }),
      time: lasting(draft.for_seconds),
    }),
    t(draft.clear_for_seconds ? "alert_pages:explain.ends" : "alert_pages:explain.ends_at_once", {
      when: t(`alert_pages:explain.when.${kind}`, { condition: clearText(kind, clear, language, t) }),
      time: lasting(draft.clear_for_seconds),
    }),
    ...(clear < threshold ? [t("alert_pages:explain.between", { low: value(clear), high: value(threshold) })] : []),
    ...(kind === "unknown" ? [] : [t("alert_pages:explain.unknown")]),
  ];
  return (
    <List size="sm" c="dimmed" data-explanation="">
      {sentences.map((sentence) => (
        <List.Item key={sentence}>{sentence}</List.Item>
      ))}
    </List>
  );
}

function Channels({ chosen, onChange }: { chosen: string[]; onChange: (names: string[]) => void }) {
  const { t } = useTranslation("alerts");
  const query = useQuery(channelsOptions());
  const [channels = [], instead] = loaded(query, null);
  if (query.error) return instead;
  const names = channels.map(({ name }) => name);
  return (
    <MultiSelect
      label={t("tab.channels")}
      description={t(query.data?.length === 0 ? "alert_pages:rule.no_channels" : "alert_pages:rule.channels_hint")}
      data={[...new Set([...names, ...chosen])]}
      value={chosen}
      maxValues={limit("NewAlertRuleRequest", "channels", "maxItems")}
      searchable
      clearable
      clearButtonProps={{ "aria-label": t("alert_pages:rule.clear_channels") }}
      onChange={onChange}
    />
  );
}

/** A rule that reaches no one: it has no channel, or only disabled ones. */
function NotifiesNoOne({ chosen }: { chosen: string[] }) {
  const { t } = useTranslation("alerts");
  const { data: channels } = useQuery(channelsOptions());
  if (!channels || channels.some(({ name, is_enabled }) => is_enabled && chosen.includes(name))) return null;
  return (
    <Alert color="yellow" p="xs" title={t("filter.not_notified")} data-warning="not_notified">
      {t(chosen.length > 0 ? "alert_pages:rule.channels_disabled" : "alert_pages:rule.console_only")}
    </Alert>
  );
}
