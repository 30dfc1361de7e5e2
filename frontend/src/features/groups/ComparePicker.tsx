import { Group, NativeSelect } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { COMPARED, type Compared } from "@/shared/ranges/compare";
import { RangePicker } from "@/shared/ranges/RangePicker";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useUrlState } from "@/ui/links/urlState";
import { IconButton } from "@/ui/menu/buttons";

const AROUND = "around";
/** What "before and after" begins with. */
const HOUR_MS = 3_600_000;

/** With which time the shown one is compared; in the address. */
export function ComparePicker({ compared }: { compared: Compared }) {
  const { t } = useTranslation("ranges");
  const [, change] = useUrlState();
  const isAround = typeof compared === "object";
  const choose = (value: string) =>
    change({ compare: value === AROUND ? new Date(Date.now() - HOUR_MS).toISOString() : value });
  return (
    <Group gap="xs" data-compare="">
      <NativeSelect
        size="xs"
        aria-label={t("compare.label")}
        value={isAround ? AROUND : compared}
        onChange={({ currentTarget: { value } }) => choose(value)}
        data={[...COMPARED, AROUND].map((value) => ({ value, label: t(`compare.${value}`) }))}
      />
      {isAround && (
        <InstantInput
          size="xs"
          direction="past"
          aria-label={t("compare.instant")}
          value={compared.around}
          onChange={(at) => {
            if (at) change({ compare: at });
          }}
        />
      )}
      <RangePicker />
      <IconButton icon={IconX} label={t("compare.end")} onClick={() => change({ compare: undefined })} />
    </Group>
  );
}
