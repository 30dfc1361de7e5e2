import { useDisclosure } from "@mantine/hooks";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { whenOpened } from "@/ui/dialog/whenOpened";
import { CreateButton } from "@/ui/menu/buttons";

const CreateGroup = whenOpened(async () => (await import("@/features/groups/CreateGroup")).CreateGroup);

/** Opens the form of a new group, of a subject or of any. */
export function CreateGroupButton({ subject }: { subject?: string }) {
  const { t } = useTranslation("groups");
  const may = useMay();
  const [isOpen, { open, close }] = useDisclosure();
  if (!may("change_groups")) return null;
  return (
    <>
      <CreateButton onClick={open}>{t("create.title")}</CreateButton>
      <CreateGroup opened={isOpen} onClose={close} subject={subject} />
    </>
  );
}
