import { Button, Group, NativeSelect, TagsInput, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { isPair, type Criteria } from "@/features/messages/criteria";
import { InstantInput } from "@/ui/dates/InstantInput";

const NOTHING: Criteria = { properties: [], tag: "", from: "", to: "", brokerGroup: "" };
/** As many as the API takes. */
const PROPERTIES_MAX = 20;

interface Props {
  asked: Criteria | null;
  brokerGroups: readonly string[];
  onSearch: (criteria: Criteria) => void;
}

/** What to look for: properties, a tag, a window of time, a broker group. */
export function SearchForm({ asked, brokerGroups, onSearch }: Props) {
  const { t } = useTranslation("messages");
  const [draft, setDraft] = useState(asked ?? NOTHING);
  // The address may change by itself: the back button, a link.
  const key = JSON.stringify(asked);
  const [seen, setSeen] = useState(key);
  if (key !== seen) {
    setSeen(key);
    setDraft(asked ?? NOTHING);
  }
  const wrong = draft.properties.filter((pair) => !isPair(pair));
  const isReady = wrong.length === 0 && (draft.properties.length > 0 || draft.tag !== "");
  return (
    <form
      role="search"
      aria-label={t("search.label")}
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) onSearch(draft);
      }}
    >
      <Group gap="xs" align="start">
        <TagsInput
          size="sm"
          className="search-properties"
          label={t("search.properties")}
          placeholder={draft.properties.length === 0 ? "region=eu" : undefined}
          description={t("search.properties_hint")}
          error={wrong[0] === undefined ? undefined : t("search.no_pair", { text: wrong[0] })}
          maxTags={PROPERTIES_MAX}
          splitChars={[]}
          acceptValueOnBlur
          value={[...draft.properties]}
          onChange={(properties) => setDraft({ ...draft, properties })}
          data-criterion="property"
        />
        <TextInput
          size="sm"
          w={140}
          label={t("search.tag")}
          description={t("search.tag_hint")}
          value={draft.tag}
          onChange={(event) => setDraft({ ...draft, tag: event.currentTarget.value })}
        />
        {(["from", "to"] as const).map((end) => (
          <InstantInput
            key={end}
            size="sm"
            direction="past"
            label={t(`search.${end}`)}
            description={t(`search.${end}_hint`)}
            value={draft[end] || null}
            onChange={(at) => setDraft({ ...draft, [end]: at ?? "" })}
          />
        ))}
        {brokerGroups.length > 1 && (
          <NativeSelect
            size="sm"
            label={t("filter.broker_group")}
            description={t("search.broker_group_hint")}
            value={draft.brokerGroup}
            onChange={(event) => setDraft({ ...draft, brokerGroup: event.currentTarget.value })}
            data={[{ value: "", label: t("search.all_groups") }, ...brokerGroups]}
          />
        )}
      </Group>
      <Button type="submit" size="sm" mt="xs" disabled={!isReady} leftSection={<IconSearch size={16} aria-hidden />}>
        {t("search.action")}
      </Button>
    </form>
  );
}
