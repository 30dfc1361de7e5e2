import {
  ActionIcon,
  Button,
  Group,
  NumberInput,
  SegmentedControl,
  Select,
  Stack,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { zoneName } from "@/format/times";
import { TAGS_MAX, UNIT_SECONDS, type Draft, type Fault } from "@/features/messages/draft";
import { InstantInput } from "@/ui/dates/InstantInput";
import { isJson } from "@/ui/message/decode";
import { useZone } from "@/ui/preferences";

interface Props {
  draft: Draft;
  faults: readonly Fault[];
  onChange: (draft: Draft) => void;
}

/** The inputs of a test message. */
export function DraftForm({ draft, faults, onChange }: Props) {
  const { t } = useTranslation("messages");
  const isProbablyJson = /^\s*[[{]/.test(draft.body);
  // A field that is still empty is no mistake of a user who has just begun.
  const shown = faults.filter((fault) => fault !== "nothing" && fault !== "delay_missing" && fault !== "due_missing");
  return (
    <Stack gap="sm">
      <Textarea
        label={t("send.body")}
        description={
          isProbablyJson ? t(isJson(draft.body) ? "send.body_json" : "send.body_no_json") : t("send.body_hint")
        }
        autosize
        minRows={4}
        maxRows={14}
        spellCheck={false}
        value={draft.body}
        onChange={(event) => onChange({ ...draft, body: event.currentTarget.value })}
        classNames={{ input: "code-input" }}
        data-autofocus
      />
      <Properties draft={draft} onChange={onChange} />
      {shown.map((fault) => (
        <Text key={fault} size="sm" c="red" role="alert">
          {t(`send.fault.${fault}`)}
        </Text>
      ))}
      <TagsInput
        label={t("column.tags")}
        description={t("send.tags_hint", { max: TAGS_MAX })}
        maxTags={TAGS_MAX}
        value={[...draft.tags]}
        onChange={(tags) => onChange({ ...draft, tags })}
      />
      <When draft={draft} onChange={onChange} />
    </Stack>
  );
}

function Properties({ draft, onChange }: Omit<Props, "faults">) {
  const { t } = useTranslation("messages");
  const set = (at: number, change: Partial<Draft["properties"][number]>) =>
    onChange({
      ...draft,
      properties: draft.properties.map((one, index) => (index === at ? { ...one, ...change } : one)),
    });
  return (
    <Stack gap={6} component="fieldset" className="plain-fieldset">
      <Text component="legend" size="sm" fw={500}>
        {t("send.properties")}
      </Text>
      {draft.properties.map((property, at) => (
        // Rows have no identity but their place.
        <Group key={at} gap={6} wrap="nowrap">
          {(["name", "value"] as const).map((part) => (
            <TextInput
              key={part}
              size="sm"
              className="grow"
              aria-label={t(`send.property_${part}`, { number: at + 1 })}
              placeholder={t(`send.${part}`)}
              value={property[part]}
              onChange={(event) => set(at, { [part]: event.currentTarget.value })}
            />
          ))}
          <ActionIcon
            variant="subtle"
            size="lg"
            aria-label={t("send.property_remove", { number: at + 1 })}
            onClick={() => onChange({ ...draft, properties: draft.properties.filter((_, index) => index !== at) })}
          >
            <IconTrash size={16} aria-hidden />
          </ActionIcon>
        </Group>
      ))}
      <Button
        size="xs"
        variant="default"
        className="start"
        leftSection={<IconPlus size={14} aria-hidden />}
        onClick={() => onChange({ ...draft, properties: [...draft.properties, { name: "", value: "" }] })}
      >
        {t("send.property_add")}
      </Button>
    </Stack>
  );
}

function When({ draft, onChange }: Omit<Props, "faults">) {
  const { t } = useTranslation("messages");
  const zone = useZone();
  return (
    <Group gap="sm" align="end">
      <SegmentedControl
        aria-label={t("send.when")}
        value={draft.when}
        onChange={(when) => onChange({ ...draft, when: when })}
        data={(["now", "delay", "due"] as const).map((value) => ({ value, label: t(`send.when_${value}`) }))}
      />
      {draft.when === "delay" && (
        <Group gap={6} wrap="nowrap" align="end">
          <NumberInput
            w={110}
            aria-label={t("send.delay")}
            min={0}
            allowNegative={false}
            value={draft.delay}
            onChange={(value) => onChange({ ...draft, delay: typeof value === "number" ? value : "" })}
          />
          <Select
            w={120}
            aria-label={t("send.unit")}
            allowDeselect={false}
            value={draft.unit}
            onChange={(unit) => onChange({ ...draft, unit: (unit ?? draft.unit) as Draft["unit"] })}
            data={Object.keys(UNIT_SECONDS).map((value) => ({ value, label: t(`send.unit_${value}`) }))}
          />
        </Group>
      )}
      {draft.when === "due" && (
        <InstantInput
          direction="future"
          label={t("send.due_at", { zone: zoneName(zone) })}
          value={draft.due}
          onChange={(due) => onChange({ ...draft, due })}
        />
      )}
    </Group>
  );
}
