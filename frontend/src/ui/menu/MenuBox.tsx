import { Menu } from "@mantine/core";
import type { Path } from "@/ui/links/addresses";
import { RouterLink } from "@/ui/links/LinkTo";
import { PopoverAnchor } from "@/ui/menu/PopoverAnchor";

export interface MenuEntry {
  label: string;
  /** A page of the console. */
  to?: Path;
  /** A file to download. */
  href?: string;
  /** Another page than one of the console, in a tab of its own. */
  page?: string;
  /** Of what can be switched: the menu stays open then. */
  checked?: boolean;
  color?: string;
  onClick?: () => void;
}

export interface Props {
  id: string;
  opened: boolean;
  onChange: (opened: boolean) => void;
  target: HTMLElement | null;
  title?: string;
  entries: readonly MenuEntry[];
}

/** The menu of a MenuButton. */
export function MenuBox({ id, opened, onChange, target, title, entries }: Props) {
  return (
    <Menu id={id} opened={opened} onChange={onChange} position="bottom-end">
      <Menu.Target>
        <PopoverAnchor element={target} />
      </Menu.Target>
      <Menu.Dropdown>
        {title && <Menu.Label>{title}</Menu.Label>}
        {entries.map(({ label, to, href, page, checked, color, onClick }) => {
          if (to !== undefined)
            return (
              <Menu.Item key={label} component={RouterLink} to={to}>
                {label}
              </Menu.Item>
            );
          if (href !== undefined)
            return (
              <Menu.Item key={label} component="a" href={href} download>
                {label}
              </Menu.Item>
            );
          if (page !== undefined)
            return (
              <Menu.Item key={label} component="a" href={page} target="_blank" rel="noreferrer">
                {label}
              </Menu.Item>
            );
          if (checked !== undefined)
            return (
              <Menu.CheckboxItem key={label} closeMenuOnClick={false} checked={checked} onChange={onClick}>
                {label}
              </Menu.CheckboxItem>
            );
          return (
            <Menu.Item key={label} color={color} onClick={onClick}>
              {label}
            </Menu.Item>
          );
        })}
      </Menu.Dropdown>
    </Menu>
  );
}
