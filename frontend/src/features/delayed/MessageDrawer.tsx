import { Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { SideDrawer } from "@/ui/dialog/SideDrawer";
import { Loading } from "@/ui/page/loaded";

const Copies = whenDrawn(async () => (await import("@/features/delayed/Copies")).Copies);

interface Props {
  /** Null: nothing is open. */
  messageId: string | null;
  subject: string;
  onClose: () => void;
}

/** One message with all its copies, and what can be done with the one that still waits. */
export function MessageDrawer({ messageId, subject, onClose }: Props) {
  const { t } = useTranslation("delayed");
  return (
    <SideDrawer opened={messageId !== null} onClose={onClose} title={<span className="break">{messageId}</span>}>
      {messageId !== null && (
        <>
          <Text size="sm" c="dimmed" mb="md">
            {t("detail.about")}
          </Text>
          <Copies messageId={messageId} subject={subject} waiting={<Loading label={t("detail.loading")} />} />
        </>
      )}
    </SideDrawer>
  );
}
