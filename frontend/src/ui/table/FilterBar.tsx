import { Button, CloseButton, Group, NativeSelect, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { fromField, toField } from "@/format/times";
import { useZone } from "@/ui/preferences";
import type { Filter } from "@/ui/table/types";
import type { Search } from "@/ui/urlState";

const TYPING_MS = 250;

function TextFilter({
  filter,
  value,
  onChange,
}: {
  filter: Extract<Filter, { kind: "search" | "text" }>;
  value: string;
  onChange: (value: string) => void;
}) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState(value);
  const [told, setTold] = useState(value);
  const [seen, setSeen] = useState(value);
  const tell = useDebouncedCallback((next: string) => {
    setTold(next);
    onChange(next);
  }, TYPING_MS);
  // The address may change by itself: the back button, a link, "clear". What comes back of our own typing is no such change.
  if (value !== seen) {
    setSeen(value);
    if (value !== told) setTyped(value);
  }
  const set = (next: string) => {
    setTyped(next);
    tell(next);
  };
  return (
    <TextInput
      size="sm"
      aria-label={filter.label}
      placeholder={filter.kind === "text" ? (filter.placeholder ?? filter.label) : filter.label}
      value={typed}
      onChange={(event) => set(event.currentTarget.value)}
      leftSection={filter.kind === "search" ? <IconSearch size={16} aria-hidden /> : undefined}
      rightSection={
        typed ? (
          <CloseButton size="sm" aria-label={t("table.clear_one", { name: filter.label })} onClick={() => set("")} />
        ) : null
      }
      data-filter={filter.name}
      className={filter.kind === "search" ? "filter-search" : "filter-text"}
    />
  );
}

/** The filters of the list `label`; what they hold is in the address. */
export function FilterBar({
  label,
  filters,
  values,
  onChange,
  onClear,
}: {
  label: string;
  filters: readonly Filter[];
  values: Search;
  onChange: (name: string, value: string | undefined) => void;
  onClear: () => void;
}) {
  const { t } = useTranslation();
  const zone = useZone();
  return (
    <Group gap="xs" role="search" aria-label={t("table.filters_of", { name: label })}>
      {filters.map((filter) => {
        const value = values[filter.name] ?? "";
        switch (filter.kind) {
          case "search":
          case "text":
            return (
              <TextFilter
                key={filter.name}
                filter={filter}
                value={value}
                onChange={(next) => onChange(filter.name, next || undefined)}
              />
            );
          case "select":
            return (
              <NativeSelect
                key={filter.name}
                size="sm"
                aria-label={filter.label}
                data-filter={filter.name}
                value={value}
                onChange={(event) => onChange(filter.name, event.currentTarget.value || undefined)}
                data={[{ value: "", label: t("table.any", { name: filter.label }) }, ...filter.options]}
              />
            );
          case "instant":
            return (
              <TextInput
                key={filter.name}
                size="sm"
                type="datetime-local"
                step={1}
                aria-label={filter.label}
                title={filter.label}
                data-filter={filter.name}
                leftSection={<span className="filter-label">{filter.label}</span>}
                leftSectionWidth={64}
                value={value ? toField(value, zone) : ""}
                onChange={(event) => onChange(filter.name, fromField(event.currentTarget.value, zone) ?? undefined)}
              />
            );
        }
      })}
      {Object.keys(values).length > 0 && (
        <Button size="sm" variant="subtle" onClick={onClear}>
          {t("table.clear")}
        </Button>
      )}
    </Group>
  );
}
