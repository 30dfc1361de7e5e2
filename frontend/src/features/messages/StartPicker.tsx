import { Group, NativeSelect, SegmentedControl } from "@mantine/core";
import { IconClock } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { FROM_STARTS, goTo, isFrom, type Start } from "@/features/messages/starts";
import { useUrlState } from "@/ui/links/urlState";
import { MenuButton } from "@/ui/menu/MenuButton";

/** Minutes back from now that a click goes to. */
const BACK_MINUTES = [5, 60, 24 * 60] as const;

/** Where the list begins. */
export function StartPicker({ start, groups }: { start: Start; groups: readonly string[] }) {
  const { t } = useTranslation("messages");
  const [search, change] = useUrlState();
  const go = (next: Start) => change(goTo(next, search, groups));
  return (
    <Group gap="xs" wrap="nowrap">
      <SegmentedControl
        size="sm"
        aria-label={t("by.label")}
        value={isFrom(start) ? "from" : start}
        onChange={(next) => go(next === "from" ? "time" : next)}
        data={(["newest", "oldest", "from"] as const).map((value) => ({ value, label: t(`by.${value}`) }))}
      />
      {isFrom(start) && (
        <NativeSelect
          size="sm"
          aria-label={t("by.from_what")}
          value={start}
          onChange={(event) => go(event.currentTarget.value as Start)}
          data={FROM_STARTS.map((value) => ({ value, label: t(`by.${value}`) }))}
        />
      )}
      {start === "time" && (
        <MenuButton
          variant="default"
          label={t("back.open")}
          icon={<IconClock size={18} aria-hidden />}
          entries={BACK_MINUTES.map((minutes) => ({
            label: t(`back.${minutes}`),
            onClick: () =>
              change({ from_time: new Date(Date.now() - minutes * 60_000).toISOString(), cursor: undefined }),
          }))}
        />
      )}
    </Group>
  );
}
