import "@/shared/filters/filters.css";
import { CloseButton, TextInput } from "@mantine/core";
import { IconFilter } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { FILTER_CHARS_MAX } from "@/shared/filters/filter";
import { SavedFiltersButton } from "@/shared/filters/SavedFiltersButton";
import { Sent } from "@/ui/Sent";

interface Props {
  /** Whose saved filters can be chosen; "": none yet. */
  subject: string;
  /** The filter that applies. */
  value: string;
  onApply: (filter: string) => void;
  /** Why it does not apply. */
  error?: string | undefined;
}

/** A filter of messages, which applies with Enter: half of an expression is none. Saved ones apply at once. */
export function FilterField({ subject, value, onApply, error }: Props) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState(value);
  const [seen, setSeen] = useState(value);
  // The address may change by itself: the back button, a link, "clear".
  if (value !== seen) {
    setSeen(value);
    setTyped(value);
  }
  const apply = (filter: string) => {
    setTyped(filter);
    onApply(filter.trim());
  };
  return (
    <form
      className="filter-field"
      onSubmit={(event) => {
        event.preventDefault();
        apply(typed);
      }}
    >
      <TextInput
        size="sm"
        className="filter-expression"
        aria-label={t("filter.label")}
        placeholder={t("filter.hint")}
        spellCheck={false}
        maxLength={FILTER_CHARS_MAX}
        leftSection={<IconFilter size={16} aria-hidden />}
        rightSection={
          typed && (
            <CloseButton
              size="sm"
              aria-label={t("table.clear_one", { name: t("filter.label") })}
              onClick={() => apply("")}
            />
          )
        }
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        error={error && <Sent text={error} />}
        data-filter="filter"
      />
      <SavedFiltersButton subject={subject} current={typed} onChoose={apply} />
    </form>
  );
}
