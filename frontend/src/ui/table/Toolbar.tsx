import { ActionIcon, Menu, Tooltip } from "@mantine/core";
import { IconColumns, IconDownload, IconRefresh } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Column } from "@/ui/table/types";

/** Ask the list anew. */
export function Refresh({ isBusy, onClick }: { isBusy: boolean; onClick: () => void }) {
  const { t } = useTranslation();
  return (
    <Tooltip label={t("table.refresh")}>
      <ActionIcon variant="default" size="lg" aria-label={t("table.refresh")} loading={isBusy} onClick={onClick}>
        <IconRefresh size={18} aria-hidden />
      </ActionIcon>
    </Tooltip>
  );
}

/** Which columns are shown. */
export function Columns<Row>({
  columns,
  hidden,
  onChange,
}: {
  columns: readonly Column<Row>[];
  hidden: ReadonlySet<string>;
  onChange: (hidden: ReadonlySet<string>) => void;
}) {
  const { t } = useTranslation();
  return (
    <Menu closeOnItemClick={false} position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size="lg" aria-label={t("table.columns")} title={t("table.columns")}>
          <IconColumns size={18} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {columns
          .filter((column) => !column.isFixed)
          .map((column) => (
            <Menu.CheckboxItem
              key={column.id}
              checked={!hidden.has(column.id)}
              onChange={() => {
                const next = new Set(hidden);
                if (!next.delete(column.id)) next.add(column.id);
                next.delete("-");
                onChange(next);
              }}
            >
              {column.header}
            </Menu.CheckboxItem>
          ))}
      </Menu.Dropdown>
    </Menu>
  );
}

/** The whole filtered list as a file. */
export function Download({ path, query }: { path: string; query: Readonly<Record<string, string>> }) {
  const { t } = useTranslation();
  const address = (format: string) =>
    `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams({ ...Object.fromEntries(Object.entries(query).filter(([, value]) => value)), format }).toString()}`;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size="lg" aria-label={t("table.download")} title={t("table.download")}>
          <IconDownload size={18} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={address("csv")} download>
          {t("table.download_csv")}
        </Menu.Item>
        <Menu.Item component="a" href={address("json")} download>
          {t("table.download_json")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
