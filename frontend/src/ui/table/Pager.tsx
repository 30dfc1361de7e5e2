import { Button, NativeSelect } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { ALL, PAGE_SIZES } from "@/ui/table/types";

/** How many rows a page has, or the whole list scrolled. */
export function PageSize({ size, onChange }: { size: string; onChange: (size: string) => void }) {
  const { t } = useTranslation();
  return (
    <NativeSelect
      size="xs"
      w={128}
      aria-label={t("table.page_size")}
      value={size}
      onChange={(event) => onChange(event.currentTarget.value)}
      data={[
        ...PAGE_SIZES.map((one) => ({ value: one, label: t("table.per_page", { size: one }) })),
        { value: ALL, label: t("table.all") },
      ]}
    />
  );
}

/** From page to page, by the API's cursors. */
export function Pager({
  cursor,
  previous,
  next,
  onGo,
}: {
  /** Where the page stands; undefined: it is the first. */
  cursor: string | undefined;
  previous: string | null | undefined;
  next: string | null | undefined;
  onGo: (cursor: string | undefined) => void;
}) {
  const { t } = useTranslation();
  return (
    <Button.Group>
      <Button
        size="xs"
        variant="default"
        disabled={!cursor}
        onClick={() => onGo(undefined)}
        aria-label={t("table.first")}
      >
        «
      </Button>
      <Button
        size="xs"
        variant="default"
        disabled={!previous}
        onClick={() => onGo(previous ?? undefined)}
        leftSection={<IconChevronLeft size={14} aria-hidden />}
      >
        {t("table.previous")}
      </Button>
      <Button
        size="xs"
        variant="default"
        disabled={!next}
        onClick={() => onGo(next ?? undefined)}
        rightSection={<IconChevronRight size={14} aria-hidden />}
      >
        {t("table.next")}
      </Button>
    </Button.Group>
  );
}
