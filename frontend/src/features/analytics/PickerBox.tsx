import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { namesOptions } from "@/features/analytics/queries";

const TYPING_MS = 250;

export interface PickerProps {
  label: string;
  name: "subject" | "group";
  value: string;
  /** Only groups of this one. */
  subject?: string;
  onChange: (value: string | undefined) => void;
}

/** A name out of all that the API knows. */
export function PickerBox({ label, name, value, subject = "", onChange }: PickerProps) {
  const { t } = useTranslation("analytics");
  const field = useRef<HTMLInputElement>(null);
  // It takes the place of a field that had the focus.
  useEffect(() => field.current?.focus(), []);
  const [typed, setTyped] = useState("");
  const [wanted] = useDebouncedValue(typed === value ? "" : typed, TYPING_MS);
  const found = useQuery({
    ...namesOptions(name, subject, wanted),
    placeholderData: keepPreviousData,
  });
  const names = new Set(found.data ?? []);
  if (value) names.add(value);
  return (
    <Select
      label={label}
      placeholder={t("pick.worst")}
      data-filter={name}
      searchable
      ref={field}
      defaultDropdownOpened
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
