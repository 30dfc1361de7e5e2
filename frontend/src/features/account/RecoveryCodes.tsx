import { Alert, Button, Code, CopyButton, Group, SimpleGrid, Stack } from "@mantine/core";
import { useEffect, useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";

/**
 * Recovery codes, shown this once: to be copied or kept as a file. Closing takes a click on "kept", not a stray one
 * beside.
 */
export function RecoveryCodes({ codes, onClose }: { codes: readonly string[] | null; onClose: () => void }) {
  const { t } = useTranslation("account");
  const me = useMe();
  const text = (codes ?? []).join("\n");
  const file = useMemo(
    () =>
      URL.createObjectURL(
        new Blob([`PyQMQ · ${me.username} · ${window.location.host}\n\n${text}\n`], { type: "text/plain" }),
      ),
    [text, me.username],
  );
  useEffect(() => () => URL.revokeObjectURL(file), [file]);
  return (
    <Dialog
      opened={codes !== null && codes.length > 0}
      onClose={onClose}
      title={t("codes.title")}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack>
        <Alert color="orange">{t("codes.once")}</Alert>
        <SimpleGrid cols={2} spacing="xs" data-codes="">
          {codes?.map((code) => (
            <Code key={code} fz="md" ta="center">
              {code}
            </Code>
          ))}
        </SimpleGrid>
        <Group>
          <CopyButton value={text}>
            {({ copied, copy }) => (
              <Button variant="default" onClick={copy}>
                {copied ? t("common:action.copied") : t("common:action.copy")}
              </Button>
            )}
          </CopyButton>
          <Button variant="default" component="a" href={file} download={`pyqmq-recovery-codes-${me.username}.txt`}>
            {t("common:table.download")}
          </Button>
        </Group>
        <DialogFooter>
          <Button onClick={onClose} data-action="codes-kept">
            {t("codes.kept")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
