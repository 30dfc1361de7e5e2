import { Group, NativeSelect, TextInput } from "@mantine/core";
import { IconSelector } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { PickerProps } from "@/features/analytics/PickerBox";
import { CUSTOM, PRESETS, type Range } from "@/features/analytics/range";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const load = async () => (await import("@/features/analytics/PickerBox")).PickerBox;
const PickerBox = whenDrawn(load);
/** A failure is reported when the field is used. */
const preload = () => void load().catch(() => undefined);

/** Which time, which subject, which consumer group. */
export function Pickers({ range, withSubject, withGroup }: { range: Range; withSubject: boolean; withGroup: boolean }) {
  const { t } = useTranslation("analytics");
  const [search, change] = useUrlState();
  const custom = { range: CUSTOM, from: range.from, to: range.to };
  return (
    <Group gap="xs" mb="md" role="search" align="flex-end">
      <NativeSelect
        label={t("range.label")}
        data-filter="range"
        value={range.preset}
        onChange={({ currentTarget: { value } }) =>
          change(value === CUSTOM ? custom : { range: value, from: undefined, to: undefined })
        }
        data={[...Object.keys(PRESETS), CUSTOM].map((value) => ({ value, label: t(`range.${value}`) }))}
      />
      {range.preset === CUSTOM &&
        (["from", "to"] as const).map((end) => (
          <InstantInput
            key={end}
            direction="past"
            label={t(`range.${end}`)}
            data-filter={end}
            value={range[end]}
            onChange={(at) => {
              if (at) change({ ...custom, [end]: at });
            }}
          />
        ))}
      {withSubject && (
        <Picker
          label={t("column.subject")}
          name="subject"
          value={search.subject ?? ""}
          onChange={(subject) => change({ subject, group: undefined, metric: undefined })}
        />
      )}
      {withGroup && (
        <Picker
          label={t("column.group")}
          name="group"
          value={search.group ?? ""}
          subject={search.subject}
          onChange={(group) => change({ group, metric: undefined })}
        />
      )}
    </Group>
  );
}

/** A field that becomes a list of names with a search when it is used: the list is loaded then. */
function Picker(props: PickerProps) {
  const { t } = useTranslation("analytics");
  const [isUsed, setUsed] = useState(false);
  const field = (
    <TextInput
      label={props.label}
      placeholder={t("pick.worst")}
      data-filter={props.name}
      value={props.value}
      readOnly
      rightSection={<IconSelector size={16} aria-hidden />}
      onPointerEnter={preload}
      onFocus={() => setUsed(true)}
    />
  );
  return isUsed ? <PickerBox {...props} waiting={field} /> : field;
}
