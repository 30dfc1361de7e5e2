import { Button, Kbd } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { whenOpened } from "@/ui/dialog/whenOpened";

const load = async () => (await import("@/app/jump/JumpBox")).JumpBox;
const JumpBox = whenOpened(load);
/** A failure is reported when the box is opened. */
const preload = () => void load().catch(() => undefined);

/**
 * Ctrl-K and its button. The box itself is no part of the first load: it is loaded when the button is pointed at, or
 * when it is opened. On a phone the button is at the lower edge.
 */
export function Jump() {
  const { t } = useTranslation();
  const [isOpen, { open, close, toggle }] = useDisclosure();
  // In fields too: a user who types there may want to leave.
  useHotkeys([["mod+K", toggle]], []);
  return (
    <>
      <Button
        className="jump-open"
        variant="default"
        size="sm"
        leftSection={<IconSearch size={16} aria-hidden />}
        rightSection={<Kbd visibleFrom="sm">Ctrl K</Kbd>}
        onClick={open}
        onPointerEnter={preload}
        onFocus={preload}
      >
        {t("jump.open")}
      </Button>
      <JumpBox opened={isOpen} onClose={close} />
    </>
  );
}
