import {
  Group,
  List,
  MultiSelect,
  NativeSelect,
  NumberInput,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { useTranslation } from "react-i18next";
import { KINDS, SEVERITIES } from "@/features/alerts/kinds";
import { channelNamesOptions, type AlertKind } from "@/features/alerts/queries";
import {
  CHANNELS_OF_A_RULE_MAX,
  clearOf,
  SECONDS_MAX,
  WINDOW_SECONDS,
  withKind,
  type RuleDraft,
} from "@/features/alerts/ruleDraft";
import { clearText, conditionText, isWord, valueText } from "@/features/alerts/words";
import { duration } from "@/format/times";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";

interface Props {
  draft: RuleDraft;
  onChange: (draft: RuleDraft) => void;
  /** What a rule looks at is decided once. */
  isNew: boolean;
}

/** What a rule looks at, when it fires, when it ends, who is told. */
export function RuleFields({ draft, onChange, isNew }: Props) {
  const { t } = useTranslation("alerts");
  const severityLabel = useId();
  const set = (changes: Partial<RuleDraft>) => onChange({ ...draft, ...changes });
  return (
    <Stack gap="sm">
      <TextInput
        label={t("column.rule")}
        required
        maxLength={100}
        value={draft.name}
        data-autofocus
        onChange={(event) => set({ name: event.currentTarget.value })}
      />
      <Group grow align="flex-start">
        <NativeSelect
          label={t("column.kind")}
          description={t(`kind_about.${draft.kind}`)}
          disabled={!isNew}
          value={draft.kind}
          data={KINDS.map((value) => ({ value, label: t(`kind.${value}`) }))}
          onChange={(event) => onChange(withKind(draft, event.currentTarget.value as AlertKind))}
        />
        <TextInput
          label={t("column.target")}
          description={t("rule.target_hint")}
          required
          maxLength={300}
          value={draft.target}
          onChange={(event) => set({ target: event.currentTarget.value })}
        />
      </Group>
      <Numbers draft={draft} set={set} />
      <Explanation draft={draft} />
      <div>
        <Text size="sm" fw={500} id={severityLabel}>
          {t("column.severity")}
        </Text>
        <SegmentedControl
          aria-labelledby={severityLabel}
          value={draft.severity}
          data={SEVERITIES.map((value) => ({ value, label: t(`severity.${value}`) }))}
          onChange={(severity) => set({ severity })}
        />
      </div>
      <Channels chosen={draft.channels} onChange={(channels) => set({ channels })} />
    </Stack>
  );
}

function Numbers({ draft, set }: { draft: RuleDraft; set: (changes: Partial<RuleDraft>) => void }) {
  const { t } = useTranslation("alerts");
  const { kind } = draft;
  const number = (value: string | number) => (typeof value === "number" ? value : "");
  return (
    <>
      {kind === "group_state" && (
        <NativeSelect
          label={t("rule.fires_when")}
          value={draft.threshold === "" ? 1 : draft.threshold}
          data={[
            { value: "1", label: t("value.offline") },
            { value: "0", label: t("value.not_writable") },
          ]}
          onChange={(event) => set({ threshold: Number(event.currentTarget.value) })}
        />
      )}
      <Group grow align="flex-end">
        {!isWord(kind) && (
          <NumberInput
            label={t("rule.threshold", { unit: t(`unit.${kind}`) })}
            required
            min={0}
            value={draft.threshold}
            thousandSeparator=","
            onChange={(value) => set({ threshold: number(value) })}
          />
        )}
        <NumberInput
          label={t("rule.for_seconds")}
          min={0}
          max={SECONDS_MAX}
          allowDecimal={false}
          value={draft.forSeconds}
          onChange={(value) => set({ forSeconds: number(value) })}
        />
      </Group>
      <Group grow align="flex-end">
        {!isWord(kind) && (
          <NumberInput
            label={t("rule.clear_threshold", { unit: t(`unit.${kind}`) })}
            placeholder={t("rule.clear_default")}
            min={0}
            max={draft.threshold === "" ? undefined : draft.threshold}
            value={draft.clearThreshold}
            thousandSeparator=","
            onChange={(value) => set({ clearThreshold: number(value) })}
          />
        )}
        <NumberInput
          label={t("rule.clear_for_seconds")}
          min={0}
          max={SECONDS_MAX}
          allowDecimal={false}
          value={draft.clearForSeconds}
          onChange={(value) => set({ clearForSeconds: number(value) })}
        />
      </Group>
      {kind === "dead_letters" && (
        <NumberInput
          label={t("rule.window_seconds")}
          {...WINDOW_SECONDS}
          allowDecimal={false}
          value={draft.windowSeconds}
          onChange={(value) => set({ windowSeconds: number(value) })}
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
    t(draft.forSeconds ? "explain.fires" : "explain.fires_at_once", {
      what: t(`kind.${kind}`),
      condition: conditionText(kind, threshold, language, t),
      time: lasting(draft.forSeconds),
    }),
    t(draft.clearForSeconds ? "explain.ends" : "explain.ends_at_once", {
      condition: clearText(kind, clear, language, t),
      time: lasting(draft.clearForSeconds),
    }),
    ...(clear < threshold ? [t("explain.between", { low: value(clear), high: value(threshold) })] : []),
    ...(kind === "unknown" ? [] : [t("explain.unknown")]),
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
  const { data, error, refetch } = useQuery(channelNamesOptions());
  if (error) return <ProblemAlert error={error} onRetry={() => void refetch()} />;
  return (
    <MultiSelect
      label={t("tab.channels")}
      description={t(data?.length === 0 ? "rule.no_channels" : "rule.channels_hint")}
      data={[...new Set([...(data ?? []), ...chosen])]}
      value={chosen}
      maxValues={CHANNELS_OF_A_RULE_MAX}
      searchable
      clearable
      clearButtonProps={{ "aria-label": t("rule.clear_channels") }}
      onChange={onChange}
    />
  );
}
