import { Button, Group, NativeSelect, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Criteria } from "@/features/messages/criteria";
import { FILTER_CHARS_MAX } from "@/shared/filters/filter";
import { SavedFiltersButton } from "@/shared/filters/SavedFiltersButton";
import { InstantInput } from "@/ui/dates/InstantInput";
import { fieldsOf } from "@/ui/fields";

const NO_CRITERIA: Criteria = { filter: "", from: "", to: "", brokerGroup: "" };

interface Props {
  subject: string;
  criteria: Criteria | null;
  brokerGroups: readonly string[];
  onSearch: (criteria: Criteria) => void;
}

/** What to look for: a filter, a window of time, a broker group. */
export function SearchForm({ subject, criteria, brokerGroups, onSearch }: Props) {
  const { t } = useTranslation("messages");
  const [draft, setDraft] = useState(criteria ?? NO_CRITERIA);
  const fields = fieldsOf(draft, (some) => setDraft({ ...draft, ...some }));
  // The address may change by itself: the back button, a link.
  const key = JSON.stringify(criteria);
  const [seen, setSeen] = useState(key);
  if (key !== seen) {
    setSeen(key);
    setDraft(criteria ?? NO_CRITERIA);
  }
  const isReady = draft.filter.trim() !== "";
  return (
    <form
      role="search"
      aria-label={t("search.label")}
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) onSearch(draft);
      }}
    >
      <Group gap="xs">
        <TextInput
          size="sm"
          className="search-filter"
          aria-label={t("common:filter.label")}
          placeholder={t("common:filter.hint")}
          spellCheck={false}
          leftSection={<IconSearch size={16} aria-hidden />}
          {...fields.text("filter")}
          maxLength={FILTER_CHARS_MAX}
          data-criterion="filter"
        />
        <SavedFiltersButton
          subject={subject}
          current={draft.filter}
          onChoose={(filter) => onSearch({ ...draft, filter })}
        />
        {(["from", "to"] as const).map((end) => (
          <InstantInput
            key={end}
            size="sm"
            direction="past"
            aria-label={t(`search.${end}`)}
            placeholder={t(`search.${end}`)}
            value={draft[end] || null}
            onChange={(at) => setDraft({ ...draft, [end]: at ?? "" })}
          />
        ))}
        {brokerGroups.length > 1 && (
          <NativeSelect
            size="sm"
            aria-label={t("filter.broker_group")}
            {...fields.text("brokerGroup")}
            data={[{ value: "", label: t("search.all_groups") }, ...brokerGroups]}
          />
        )}
        <Button type="submit" size="sm" disabled={!isReady}>
          {t("search.action")}
        </Button>
      </Group>
    </form>
  );
}
