import { Group, NativeSelect, Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { namesOptions } from "@/features/analytics/queries";
import { CUSTOM, PRESETS, type Range } from "@/features/analytics/range";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useUrlState } from "@/ui/urlState";

const TYPING_MS = 250;

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

function Picker({
  label,
  name,
  value,
  subject = "",
  onChange,
}: {
  label: string;
  name: "subject" | "group";
  value: string;
  /** Only groups of this one. */
  subject?: string;
  onChange: (value: string | undefined) => void;
}) {
  const { t } = useTranslation("analytics");
  const [typed, setTyped] = useState("");
  const [wanted] = useDebouncedValue(typed === value ? "" : typed, TYPING_MS);
  const found = useQuery({ ...namesOptions(name, subject, wanted), placeholderData: keepPreviousData });
  const names = new Set(found.data ?? []);
  if (value) names.add(value);
  return (
    <Select
      label={label}
      placeholder={t("pick.worst")}
      data-filter={name}
      searchable
      clearable
      value={value || null}
      onChange={(next) => onChange(next ?? undefined)}
      searchValue={typed}
      onSearchChange={setTyped}
      data={[...names]}
      nothingFoundMessage={found.isError ? t("pick.failed") : t("pick.nothing")}
    />
  );
}
