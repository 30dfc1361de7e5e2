import { ActionIcon, Button, CloseButton, Group, NativeSelect, TextInput } from "@mantine/core";
import { useDebouncedCallback, useDisclosure } from "@mantine/hooks";
import { IconAdjustmentsHorizontal, IconFilterOff, IconSearch } from "@tabler/icons-react";
import { useId, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { InstantInput } from "@/ui/dates/InstantInput";
import type { Column, Filter } from "@/ui/table/types";
import { reversed } from "@/ui/table/useListState";
import type { Search } from "@/ui/links/urlState";

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
  const [sent, setSent] = useState(value);
  const [seen, setSeen] = useState(value);
  const send = useDebouncedCallback((next: string) => {
    setSent(next);
    onChange(next);
  }, TYPING_MS);
  // The address may change by itself: the back button, a link, "clear". What comes back of our own typing is no such
  // change.
  if (value !== seen) {
    setSeen(value);
    if (value !== sent) setTyped(value);
  }
  const set = (next: string) => {
    setTyped(next);
    send(next);
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

/** Pixels of a short text in small print. */
function widthOf(label: string): number {
  return Array.from(label).reduce((sum, letter) => sum + (letter > "\u2e80" ? 13 : 7), 16);
}

/** A filter of a list; its value is the address's. */
function OneFilter({
  filter,
  value,
  onChange,
}: {
  filter: Filter;
  value: string;
  onChange: (value: string | undefined) => void;
}) {
  const { t } = useTranslation();
  if (filter.kind === "select") {
    return (
      <NativeSelect
        size="sm"
        className="filter-select"
        aria-label={filter.label}
        data-filter={filter.name}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value || undefined)}
        data={[{ value: "", label: t("table.any", { name: filter.label }) }, ...filter.options]}
      />
    );
  }
  if (filter.kind === "instant") {
    return (
      <InstantInput
        size="sm"
        direction={filter.direction}
        aria-label={filter.label}
        placeholder={filter.label}
        title={filter.label}
        data-filter={filter.name}
        leftSection={value ? <span className="filter-label">{filter.label}</span> : undefined}
        leftSectionWidth={widthOf(filter.label)}
        className="filter-text filter-instant"
        mod={{ set: value !== "" }}
        value={value || null}
        onChange={(at) => onChange(at ?? undefined)}
      />
    );
  }
  if (filter.kind === "own") return filter.input(value, onChange);
  return <TextFilter filter={filter} value={value} onChange={(next) => onChange(next || undefined)} />;
}

/**
 * The filters of the list `label`; what they hold is in the address. On a phone all but the search are behind a button
 * that says how many are set, and so is the order, which is a click on a column's name elsewhere.
 */
export function FilterBar<Row>({
  label,
  filters,
  values,
  onChange,
  onClear,
  columns,
  ordering,
  onOrder,
}: {
  label: string;
  filters: readonly Filter[];
  values: Search;
  onChange: (name: string, value: string | undefined) => void;
  onClear: () => void;
  columns: readonly Column<Row>[];
  ordering: string;
  onOrder: (ordering: string) => void;
}) {
  const { t } = useTranslation();
  const [isOpen, { toggle }] = useDisclosure();
  const restId = useId();
  const isSearch = ({ kind }: Filter) => kind === "search";
  const rest = filters.filter((filter) => !isSearch(filter));
  const set = rest.filter(({ name }) => values[name]).length;
  const orders = columns.flatMap(({ sort, header }) =>
    sort
      ? [sort, reversed(sort)].map((value) => ({ value, label: `${header} ${value.startsWith("-") ? "↓" : "↑"}` }))
      : [],
  );
  const one = (filter: Filter) => (
    <OneFilter
      key={filter.name}
      filter={filter}
      value={values[filter.name] ?? ""}
      onChange={(next) => onChange(filter.name, next)}
    />
  );
  return (
    <Group gap="xs" role="search" aria-label={t("table.filters_of", { name: label })}>
      {filters.filter(isSearch).map(one)}
      {rest.length + orders.length > 0 && (
        <Button
          className="filters-button"
          variant="default"
          leftSection={<IconAdjustmentsHorizontal size={16} aria-hidden />}
          aria-expanded={isOpen}
          aria-controls={restId}
          onClick={toggle}
        >
          {set > 0 ? t("table.filters_set", { count: set }) : t("table.filters")}
        </Button>
      )}
      <div id={restId} className="filters-rest" data-open={isOpen || undefined}>
        {rest.map(one)}
        {orders.length > 0 && (
          <NativeSelect
            className="filters-order"
            size="sm"
            aria-label={t("table.order")}
            value={ordering}
            onChange={(event) => onOrder(event.currentTarget.value)}
            data={[{ value: "", label: t("table.order") }, ...orders]}
          />
        )}
        {Object.keys(values).length > 0 && (
          <ActionIcon
            data-hint={t("table.clear")}
            variant="subtle"
            size="lg"
            aria-label={t("table.clear")}
            onClick={onClear}
          >
            <IconFilterOff size={18} aria-hidden />
          </ActionIcon>
        )}
      </div>
    </Group>
  );
}
