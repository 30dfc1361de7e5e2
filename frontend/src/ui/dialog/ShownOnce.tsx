import { Alert, Button, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { Snippet } from "@/shared/Teach";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";

/** A secret that was made and is shown this once. It closes by the button only: a stray click would lose it. */
export function ShownOnce({
  secret,
  title,
  label,
  children,
  onClose,
}: {
  /** Null: nothing to show. */
  secret: string | null;
  title: string;
  label: string;
  /** What to do with it. */
  children?: ReactNode;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  return (
    <Dialog
      opened={secret !== null}
      onClose={onClose}
      title={title}
      size="lg"
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack>
        <Alert color="orange">{t("once.text")}</Alert>
        <div data-secret="">
          <Text size="sm" fw={500}>
            {label}
          </Text>
          <Snippet code={secret ?? ""} />
        </div>
        {children}
        <DialogFooter>
          <Button onClick={onClose} data-action="kept">
            {t("once.kept")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
