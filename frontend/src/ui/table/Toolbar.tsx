import { ActionIcon } from "@mantine/core";
import { IconColumns, IconDownload, IconRefresh } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { MenuButton } from "@/ui/menu/MenuButton";
import type { Column } from "@/ui/table/types";

/** Load the list again. */
export function Refresh({ isBusy, onClick }: { isBusy: boolean; onClick: () => void }) {
  const { t } = useTranslation();
  return (
    <ActionIcon
      data-hint={t("table.refresh")}
      variant="default"
      size="lg"
      aria-label={t("table.refresh")}
      loading={isBusy}
      onClick={onClick}
    >
      <IconRefresh size={18} aria-hidden />
    </ActionIcon>
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
    <MenuButton
      variant="default"
      label={t("table.columns")}
      icon={<IconColumns size={18} aria-hidden />}
      entries={columns
        .filter((column) => !column.isFixed)
        .map(({ id, header }) => ({
          label: header,
          checked: !hidden.has(id),
          onClick: () => {
            const next = new Set(hidden);
            if (!next.delete(id)) next.add(id);
            next.delete("-");
            onChange(next);
          },
        }))}
    />
  );
}

/** The whole filtered list as a file. */
export function Download({ path, query }: { path: string; query: Readonly<Record<string, string>> }) {
  const { t } = useTranslation();
  const address = (format: string) =>
    `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams({ ...Object.fromEntries(Object.entries(query).filter(([, value]) => value)), format }).toString()}`;
  return (
    <MenuButton
      variant="default"
      label={t("table.download")}
      icon={<IconDownload size={18} aria-hidden />}
      entries={(["csv", "json"] as const).map((format) => ({
        label: t(`table.download_${format}`),
        href: address(format),
      }))}
    />
  );
}
