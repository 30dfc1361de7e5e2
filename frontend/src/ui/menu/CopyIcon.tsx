import { ActionIcon, CopyButton } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";

/** Copies a text; `what` says which, for people who can't see where the button stands. */
export function CopyIcon({ value, what, isLarge = false }: { value: string; what?: string; isLarge?: boolean }) {
  const { t } = useTranslation();
  const [size, iconSize] = isLarge ? ["md", 16] : ["sm", 14];
  const label = what === undefined ? t("action.copy") : t("action.copy_what", { what });
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <ActionIcon
          data-hint={copied ? t("action.copied") : label}
          variant="subtle"
          size={size}
          onClick={copy}
          aria-label={label}
        >
          {copied ? <IconCheck size={iconSize} aria-hidden /> : <IconCopy size={iconSize} aria-hidden />}
        </ActionIcon>
      )}
    </CopyButton>
  );
}
