import { Alert, Button, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { change, NOW } from "@/api/requests";
import { alertsKey } from "@/api/alerts";
import { type Channel } from "@/features/alerts/queries";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { Sent } from "@/ui/Sent";

/** Send a test notification, and say what came of it. */
export function TestDialog({ channel, onClose }: { channel: Channel; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  const test = useMutation({
    mutationFn: () => change("post", "/api/v1/alert-channels/{channel}/test/", NOW, { path: { channel: channel.id } }),
    onSettled: () => client.invalidateQueries({ queryKey: alertsKey }),
  });
  const where = channel.origin ?? channel.addresses?.join(", ");
  return (
    <Dialog opened onClose={onClose} title={t("alert_pages:channel.test_title", { name: channel.name })}>
      <Stack>
        <Text size="sm">
          {where ? t("alert_pages:channel.test_about", { where }) : t("alert_pages:channel.test_about_hidden")}
        </Text>
        <div aria-live="polite">
          {test.isError && <ProblemAlert error={test.error} />}
          {test.data && (
            <Alert
              color={test.data.is_told ? "teal" : "red"}
              title={t(test.data.is_told ? "alert_pages:channel.told" : "alert_pages:channel.not_told")}
              data-sent={test.data.is_told}
            >
              <Text size="sm" className="break">
                <Sent text={test.data.detail} />
              </Text>
              {test.data.code && (
                <Text size="xs" c="dimmed">
                  {test.data.code}
                </Text>
              )}
            </Alert>
          )}
        </div>
        <DialogFooter>
          <Button variant="default" onClick={onClose}>
            {t("common:action.close")}
          </Button>
          <Button loading={test.isPending} onClick={() => test.mutate()} data-action="test">
            {t(test.data ? "alert_pages:channel.test_again" : "alert_pages:channel.test")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
