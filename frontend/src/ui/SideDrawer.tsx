import type { DrawerProps } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { whenOpened } from "@/ui/whenOpened";

const Drawer = whenOpened<DrawerProps>(async () => (await import("@/ui/DrawerBox")).Drawer);

/** One thing whole, beside the list that it was opened from. */
export function SideDrawer(props: DrawerProps) {
  const { t } = useTranslation();
  return <Drawer position="right" size="lg" closeButtonProps={{ "aria-label": t("action.close") }} {...props} />;
}
