import { Stack, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { GroupName } from "@/features/groups/queries";
import { consumerProgram, shellWord } from "@/shared/clientLines";
import { Commands, Snippet, useClientAddress } from "@/shared/Teach";
import { Dialog } from "@/ui/dialog/Dialog";

/** How one more consumer of the group is started. */
export function ConsumerDialog({ name: { subject, group }, onClose }: { name: GroupName; onClose: () => void }) {
  const { t } = useTranslation("groups");
  return (
    <Dialog opened onClose={onClose} title={t("start_consumer.title", { group })} size="lg">
      <Stack gap="sm">
        <Text size="sm">{t("start_consumer.text")}</Text>
        <Commands lines={[`qmq consume ${shellWord(subject)} ${shellWord(group)}`]} />
        <Snippet code={consumerProgram(useClientAddress(), subject, group)} />
      </Stack>
    </Dialog>
  );
}
