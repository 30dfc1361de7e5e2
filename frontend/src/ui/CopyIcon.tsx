import { ActionIcon, CopyButton } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

/** Copies a text; `what` says which, for people who can't see where the button stands. */
export function CopyIcon({ value, what }: { value: string; what: string }) {
  const { t } = useTranslation();
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <ActionIcon
          data-hint={copied ? t("action.copied") : t("action.copy_what", { what })}
          variant="subtle"
          size="sm"
          onClick={copy}
          aria-label={t("action.copy_what", { what })}
        >
          {copied ? <IconCheck size={14} aria-hidden /> : <IconCopy size={14} aria-hidden />}
        </ActionIcon>
      )}
    </CopyButton>
  );
}
