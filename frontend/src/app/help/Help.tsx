import { useDisclosure, useWindowEvent } from "@mantine/hooks";
import { IconHelp } from "@tabler/icons-react";
import { useRouterState } from "@tanstack/react-router";
import { useTranslation } from "@/i18n/useTranslation";
import { isPressed } from "@/app/help/keys";
import { pages } from "@/app/pages";
import { whenOpened } from "@/ui/dialog/whenOpened";
import { MenuButton } from "@/ui/menu/MenuButton";

const KeysDialog = whenOpened(async () => (await import("@/app/help/KeysDialog")).KeysDialog);

/** The documentation of the page, the API's reference, and the keys, which `?` shows too; `/` goes to the filter. */
export function Help() {
  const { t } = useTranslation();
  const route = useRouterState({ select: (state) => state.matches.at(-1)?.fullPath as string | undefined });
  const [isOpen, { open, close }] = useDisclosure();
  useWindowEvent("keydown", (event) => {
    if (isPressed(event, "?")) open();
    if (!isPressed(event, "/")) return;
    const field = document.querySelector<HTMLInputElement>("main .filter-search input");
    if (!field) return;
    event.preventDefault();
    field.focus();
  });
  const page = pages.find(({ path }) => path === route);
  return (
    <>
      <MenuButton
        variant="subtle"
        color="gray"
        visibleFrom="sm"
        label={t("help.label")}
        icon={<IconHelp size={18} aria-hidden />}
        entries={[
          ...(page ? [{ label: t("help.page"), page: `/docs/${page.docs}` }] : []),
          { label: t("help.all"), page: "/docs/" },
          { label: t("help.api"), page: "/docs/api" },
          { label: t("help.keys"), onClick: open },
        ]}
      />
      <KeysDialog opened={isOpen} onClose={close} />
    </>
  );
}
