import { Group, NativeSelect } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { CUSTOM, PRESETS, spanAt, textOfSpan } from "@/shared/ranges/range";
import { useRange } from "@/shared/ranges/useRange";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const SpanFields = whenDrawn(async () => (await import("@/shared/ranges/SpanFields")).SpanFields, ["ranges"]);

/** Which time the charts of a page show: a preset that ends now, or a chosen span. In the address. */
export function RangePicker() {
  const { t } = useTranslation();
  const [range, setRange] = useRange();
  return (
    <Group gap="xs" data-range={range.preset}>
      {range.span && <SpanFields span={range.span} onChange={(span) => setRange(textOfSpan(span))} />}
      <NativeSelect
        size="xs"
        aria-label={t("range.label")}
        value={range.preset}
        onChange={({ currentTarget: { value } }) =>
          setRange(value === CUSTOM ? textOfSpan(spanAt(range, Date.now())) : value)
        }
        data={[...Object.keys(PRESETS), CUSTOM].map((value) => ({ value, label: t(`range.${value}`) }))}
      />
    </Group>
  );
}
