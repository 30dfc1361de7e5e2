import { FilterField } from "@/shared/filters/FilterField";
import type { Filter } from "@/ui/table/types";

/** The filter of a list of messages; `subject`: whose saved filters can be chosen. */
export function messageFilter(label: string, subject: string): Filter {
  return {
    kind: "own",
    name: "filter",
    label,
    input: (value, onChange) => (
      <FilterField subject={subject} value={value} onApply={(filter) => onChange(filter || undefined)} />
    ),
  };
}
