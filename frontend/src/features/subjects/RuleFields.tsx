import { Group, MultiSelect, Select, SimpleGrid, TagsInput } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { HOWS, ROLES, type Rule } from "@/features/subjects/masking";
import { IconButton } from "@/ui/menu/buttons";

/** One masking rule: what it hides, how, and who sees the values all the same. */
export function RuleFields({
  rule,
  number,
  onChange,
  onRemove,
  isDisabled,
}: {
  rule: Rule;
  number: number;
  onChange: (rule: Rule) => void;
  onRemove: () => void;
  isDisabled: boolean;
}) {
  const { t } = useTranslation("subjects");
  const label = (name: string) => ({
    label: t(`masking.${name}`),
    "aria-label": `${t("masking.rule", { number })}: ${t(`masking.${name}`)}`,
    disabled: isDisabled,
  });
  return (
    <Group gap="xs" wrap="nowrap" align="flex-start" data-rule={number}>
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="xs" flex={1}>
        <TagsInput
          {...label("properties")}
          placeholder={rule.properties.length ? "" : "card_*"}
          value={rule.properties}
          onChange={(properties) => onChange({ ...rule, properties })}
        />
        <TagsInput
          {...label("json_paths")}
          placeholder={rule.json_paths.length ? "" : "items[*].price"}
          value={rule.json_paths}
          onChange={(paths) => onChange({ ...rule, json_paths: paths })}
        />
        <Select
          {...label("how")}
          allowDeselect={false}
          data={HOWS.map((how) => ({ value: how, label: t(`masking.hows.${how}`) }))}
          value={rule.how}
          onChange={(how) => onChange({ ...rule, how: how ?? "hide" })}
        />
        <MultiSelect
          {...label("roles")}
          placeholder={rule.roles.length ? "" : t("masking.nobody")}
          data={ROLES.map((role) => ({ value: role, label: t(`common:role.${role}`) }))}
          value={rule.roles}
          onChange={(roles) => onChange({ ...rule, roles })}
        />
      </SimpleGrid>
      <IconButton
        icon={IconTrash}
        label={t("masking.remove", { number })}
        variant="subtle"
        color="gray"
        size={40}
        mt={24}
        disabled={isDisabled}
        onClick={onRemove}
      />
    </Group>
  );
}
