import { Alert, List, Text } from "@mantine/core";
import { IconEyeOff } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";

export type MaskedValue = Schema<"MaskedValue">;

/** That something of a message is masked: by which rules, and why more is hidden than they name. */
export function MaskNotes({ values }: { values: readonly MaskedValue[] }) {
  const { t } = useTranslation("message");
  if (values.length === 0) return null;
  return (
    <Alert color="gray" icon={<IconEyeOff size={18} />} title={t("masks.title")} data-masked={values.length}>
      <List size="sm" listStyleType="none">
        {values.map(({ property, rule, how, why }) => (
          <List.Item key={`${property} ${rule} ${how}`}>
            {why === null ? t(`masks.${how}`, { property, rule }) : t(`masks.why.${why}`, { property, rule })}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

/** Beside a property: the rule that masks it. */
export function MaskMark({ values, name }: { values: readonly MaskedValue[]; name: string }) {
  const { t } = useTranslation("message");
  const rules = values.filter(({ property }) => property === name).map(({ rule }) => rule);
  if (rules.length === 0) return null;
  return (
    <Text span inherit c="dimmed" ml={6} title={t("masks.by", { rules: rules.join(", ") })}>
      <IconEyeOff size={14} aria-label={t("masks.by", { rules: rules.join(", ") })} />
    </Text>
  );
}
