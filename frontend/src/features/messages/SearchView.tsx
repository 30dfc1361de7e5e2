import { Alert, Button, Group, Progress, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { placeOptions } from "@/api/owner";
import { useMessageColumns } from "@/features/messages/columns";
import { criteriaOf, searchOf, type Criteria } from "@/features/messages/criteria";
import { keyOf } from "@/features/messages/MessageDrawer";
import { searchStep, type Found, type Message } from "@/features/messages/queries";
import { SearchForm } from "@/features/messages/SearchForm";
import { count, percent } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { Unreachable } from "@/ui/Unreachable";
import { useUrlState } from "@/ui/urlState";
import { useSteps } from "@/ui/useSteps";

/** Found messages that a search gathers before it waits to be told to go on. */
export const FOUND_MAX = 500;

/** Search by properties and tag; what is looked for is in the address, so that a link looks for the same. */
export function SearchView({ subject }: { subject: string }) {
  const [search, change] = useUrlState();
  const { data: place } = useQuery(placeOptions(subject));
  const asked = criteriaOf(search);
  // The same criteria asked for once more are a new search too.
  const [run, setRun] = useState(0);
  return (
    <Stack gap="md">
      <SearchForm
        asked={asked}
        brokerGroups={place?.brokerGroups ?? []}
        onSearch={(criteria) => {
          change(searchOf(criteria), true);
          setRun(run + 1);
        }}
      />
      {asked && <Results key={`${run} ${JSON.stringify(asked)}`} subject={subject} criteria={asked} />}
    </Stack>
  );
}

type Sums = Pick<Found, "progress" | "unreadable" | "unreachable">;
const NOTHING: Sums = { progress: 0, unreadable: 0, unreachable: {} };

function Results({ subject, criteria }: { subject: string; criteria: Criteria }) {
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
  }, FOUND_MAX);
  const { start, state } = steps;
  useEffect(start, [start]);
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
        {t("search.sums", { found: count(steps.found.length, language), done: count(steps.done, language) })}
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
  const [, change] = useUrlState();
  const open = useCallback((key: string) => change({ message: key }, true), [change]);
  const columns = useMessageColumns(open);
  return (
    // A scrolled region has to be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" tabIndex={0} role="region" aria-label={t("search.results")}>
      <Table stickyHeader highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Table.Th key={column.id} ta={column.align}>
                {column.header}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {messages.map((message) => (
            <Table.Tr key={keyOf(message)} data-row={keyOf(message)}>
              {columns.map((column) => (
                <Table.Td key={column.id} ta={column.align}>
                  {column.cell(message)}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
