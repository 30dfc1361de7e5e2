import type { DrawerProps } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useUrlState } from "@/ui/links/urlState";
import { whenOpened } from "@/ui/dialog/whenOpened";

const Drawer = whenOpened<DrawerProps>(async () => (await import("@/ui/dialog/DrawerBox")).Drawer);

/** One thing whole, beside the list that it was opened from. */
export function SideDrawer(props: DrawerProps) {
  const { t } = useTranslation();
  return <Drawer position="right" size="lg" closeButtonProps={{ "aria-label": t("action.close") }} {...props} />;
}

type Named = Omit<DrawerProps, "opened" | "onClose" | "children"> & {
  name: string;
  children: (value: string) => ReactNode;
};

/** What the address names by `?name=`, beside the page. */
export function AddressDrawer({ name, children, ...props }: Named) {
  const [search, change] = useUrlState();
  const value = search[name];
  return (
    <SideDrawer {...props} opened={value !== undefined} onClose={() => change({ [name]: undefined })}>
      {value !== undefined && children(value)}
    </SideDrawer>
  );
}
