import { ActionIcon, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

export interface RowAction {
  label: string;
  run: () => void;
  isDangerous?: boolean;
}

/** What can be done with a row. */
export function RowMenu({ name, items }: { name: string; items: readonly RowAction[] }) {
  const { t } = useTranslation("alerts");
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" aria-label={t("actions_of", { name })}>
          <IconDots size={16} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {items.map(({ label, run, isDangerous }) => (
          <Menu.Item key={label} color={isDangerous ? "red" : undefined} onClick={run}>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
