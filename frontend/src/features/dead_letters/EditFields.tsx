import "@/features/dead_letters/edit.css";
import { ActionIcon, Button, Group, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { faultOf, TAGS_MAX, type Edit } from "@/features/dead_letters/edit";
import { BODY, isJson } from "@/ui/message/decode";
import { EncodedAgain } from "@/ui/message/EncodedAgain";

interface Props {
  edit: Edit;
  disabled: boolean;
  onChange: (edit: Edit) => void;
}

/** What the copy of a dead letter says: each property, and the tags. */
export function EditFields({ edit, disabled, onChange }: Props) {
  const { t } = useTranslation("dead_letters");
  const fault = faultOf(edit);
  const set = (at: number, some: Partial<Edit["properties"][number]>) =>
    onChange({
      ...edit,
      properties: edit.properties.map((one, index) => (index === at ? { ...one, ...some } : one)),
    });
  return (
    <fieldset className="edit-fields" disabled={disabled} data-edit="">
      <legend>{t("edit.properties")}</legend>
      {edit.properties.map(({ name, text }, at) => (
        <Group key={at} gap={6} wrap="nowrap" align="flex-start">
          <TextInput
            aria-label={t("edit.name_of", { number: at + 1 })}
            w={140}
            value={name}
            onChange={(event) => set(at, { name: event.currentTarget.value })}
          />
          <Textarea
            aria-label={t("edit.value_of", { name: name || at + 1 })}
            className="grow"
            autosize
            minRows={name === BODY ? 4 : 1}
            maxRows={12}
            spellCheck={false}
            value={text}
            onChange={(event) => set(at, { text: event.currentTarget.value })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            size={36}
            aria-label={t("edit.remove", { name: name || at + 1 })}
            onClick={() => onChange({ ...edit, properties: edit.properties.filter((_, index) => index !== at) })}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </Group>
      ))}
      {edit.properties.some(({ name, text }) => name === BODY && /^\s*[[{]/.test(text) && !isJson(text)) && (
        <Text size="sm" c="orange">
          {t("edit.no_json")}
        </Text>
      )}
      <EncodedAgain decoding={edit.decoding} />
      {fault && (
        <Text size="sm" c="red" role="alert">
          {t(`edit.fault.${fault}`)}
        </Text>
      )}
      <Button
        variant="subtle"
        size="compact-sm"
        leftSection={<IconPlus size={14} />}
        style={{ alignSelf: "flex-start" }}
        onClick={() => onChange({ ...edit, properties: [...edit.properties, { name: "", text: "" }] })}
      >
        {t("edit.add")}
      </Button>
      <TagsInput
        label={t("edit.tags")}
        maxTags={TAGS_MAX}
        value={[...edit.tags]}
        onChange={(tags) => onChange({ ...edit, tags })}
      />
    </fieldset>
  );
}
