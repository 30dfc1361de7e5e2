import { Alert, Button, Group, NativeSelect, Progress, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { placeOptions } from "@/api/owner";
import { useMessageColumns } from "@/features/messages/columns";
import { criteriaOf, isPair, searchOf, type Criteria } from "@/features/messages/criteria";
import { searchStep, type Found, type Message } from "@/features/messages/queries";
import { count, percent } from "@/format/numbers";
import { fieldsOf } from "@/ui/fields";
import { useLanguage } from "@/ui/preferences";
import { InstantInput } from "@/ui/dates/InstantInput";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { TableView } from "@/ui/table/TableView";
import { Unreachable } from "@/ui/measure/Unreachable";
import { placeKey } from "@/ui/message/place";
import { useUrlState } from "@/ui/links/urlState";
import { useSteps } from "@/ui/dialog/useSteps";

/** Found messages that a search gathers before it waits for "Continue". */
const FULL = { foundMax: 500 };

/** Search by properties and tag; what is looked for is in the address, so that a link looks for the same. */
export function SearchView({ subject, onRows }: { subject: string; onRows: (keys: readonly string[]) => void }) {
  const [search, change] = useUrlState();
  const { data: place } = useQuery(placeOptions(subject));
  const criteria = criteriaOf(search);
  // The same criteria asked for once more are a new search too.
  const [run, setRun] = useState(0);
  return (
    <Stack gap="md">
      <SearchForm
        criteria={criteria}
        brokerGroups={place?.brokerGroups ?? []}
        onSearch={(criteria) => {
          change(searchOf(criteria), true);
          setRun(run + 1);
        }}
      />
      {criteria && (
        <Results key={`${run} ${JSON.stringify(criteria)}`} subject={subject} criteria={criteria} onRows={onRows} />
      )}
    </Stack>
  );
}

type Sums = Pick<Found, "progress" | "unreadable" | "unreachable">;
const NOTHING: Sums = { progress: 0, unreadable: 0, unreachable: {} };

function Results({
  subject,
  criteria,
  onRows,
}: {
  subject: string;
  criteria: Criteria;
  onRows: (keys: readonly string[]) => void;
}) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  const [sums, setSums] = useState(NOTHING);
  const steps = useSteps<Message>(async (cursor, signal) => {
    const found = await searchStep(subject, criteria, cursor, signal);
    setSums(({ unreadable }) => ({
      progress: found.progress,
      unreadable: unreadable + found.unreadable,
      unreachable: found.unreachable,
    }));
    return { found: found.results, next: found.next, done: found.scanned };
  }, FULL);
  const { start, state } = steps;
  useEffect(start, [start]);
  useEffect(() => onRows(steps.found.map(placeKey)), [onRows, steps.found]);
  const canResume = state === "cancelled" || state === "full" || state === "failed";
  return (
    <Stack gap="xs" data-search={state}>
      <Group gap="sm" wrap="nowrap">
        <Progress
          className="grow"
          value={state === "finished" ? 100 : sums.progress * 100}
          animated={state === "running"}
          aria-label={t("search.progress")}
        />
        <Text size="sm" className="nowrap">
          {percent(state === "finished" ? 1 : sums.progress, language)}
        </Text>
        {state === "running" && (
          <Button size="xs" variant="default" onClick={steps.cancel}>
            {t("common:action.stop")}
          </Button>
        )}
        {canResume && (
          <Button size="xs" variant="default" onClick={steps.resume}>
            {t("common:action.go_on")}
          </Button>
        )}
      </Group>
      <Text size="sm" aria-live="polite">
        {t(`search.state.${state}`)}{" "}
        {t("search.sums", {
          found: t("search.found", { count: steps.found.length, shown: count(steps.found.length, language) }),
          done: t("search.done", { count: steps.done, shown: count(steps.done, language) }),
        })}{" "}
        {steps.found.length === 0 && state !== "running" && t("search.only_properties")}
      </Text>
      {sums.unreadable > 0 && (
        <Alert color="red">
          {t("search.unreadable", { count: sums.unreadable, shown: count(sums.unreadable, language) })}
        </Alert>
      )}
      <Unreachable of={sums.unreachable} />
      {state === "failed" && <ProblemAlert error={steps.error} onRetry={steps.resume} />}
      {steps.found.length > 0 && <Rows messages={steps.found} />}
    </Stack>
  );
}

function Rows({ messages }: { messages: readonly Message[] }) {
  const { t } = useTranslation("messages");
  const [search, change] = useUrlState();
  const open = useCallback(
    (key: string) => change({ message: key }, search.message === undefined),
    [change, search.message],
  );
  const columns = useMessageColumns(open);
  return (
    <TableView
      label={t("search.results")}
      rows={messages}
      columns={columns}
      rowKey={placeKey}
      opening={{ onOpen: open, opened: search.message }}
    />
  );
}

const NO_CRITERIA: Criteria = { properties: [], tag: "", from: "", to: "", brokerGroup: "" };
/** As many as the API takes. */
const PROPERTIES_MAX = 20;

interface Props {
  criteria: Criteria | null;
  brokerGroups: readonly string[];
  onSearch: (criteria: Criteria) => void;
}

/** What to look for: properties, a tag, a window of time, a broker group. */
function SearchForm({ criteria, brokerGroups, onSearch }: Props) {
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
          {...fields.text("tag")}
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
            {...fields.text("brokerGroup")}
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
