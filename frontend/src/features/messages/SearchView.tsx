import { Alert, Code, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { placeOptions } from "@/api/owner";
import { useMessageColumns } from "@/features/messages/columns";
import { criteriaOf, notSearched, queryOf, searchOf, type Criteria } from "@/features/messages/criteria";
import { searchStep, type Found, type Message } from "@/features/messages/queries";
import { SearchForm } from "@/features/messages/SearchForm";
import { listed } from "@/format/names";
import { count } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { TableView } from "@/ui/table/TableView";
import { Download } from "@/ui/table/Toolbar";
import { Unreachable } from "@/ui/measure/Unreachable";
import { placeKey } from "@/ui/message/place";
import { useUrlState } from "@/ui/links/urlState";
import { StepsBar } from "@/ui/dialog/StepsBar";
import { useSteps } from "@/ui/dialog/useSteps";

/** Found messages that a search gathers before it waits for "Load more". */
const FULL = { foundMax: 200 };

interface Props {
  subject: string;
  onRows: (keys: readonly string[]) => void;
}

/** Search with a filter, newest first; what is looked for is in the address, so that a link looks for the same. */
export function SearchView({ subject, onRows }: Props) {
  const [search, change] = useUrlState();
  const { data: place } = useQuery(placeOptions(subject));
  const criteria = criteriaOf(search);
  // The same criteria asked for once more are a new search too.
  const [run, setRun] = useState(0);
  return (
    <Stack gap="xs">
      <SearchForm
        subject={subject}
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

type Sums = Pick<Found, "progress" | "unreachable" | "expression" | "searched" | "scanned"> & {
  unreadable: number;
  costly: number;
};
const NOTHING: Sums = {
  progress: 0,
  scanned: 0,
  unreachable: {},
  expression: null,
  searched: [],
  unreadable: 0,
  costly: 0,
};

function Results({ subject, criteria, onRows }: Props & { criteria: Criteria }) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  const [sums, setSums] = useState(NOTHING);
  const steps = useSteps<Message>(async (cursor, signal) => {
    const found = await searchStep(subject, criteria, cursor, signal);
    setSums((before) => ({
      ...found,
      unreadable: before.unreadable + found.unreadable,
      costly: before.costly + found.costly,
    }));
    return { found: found.results, next: found.next, done: 0 };
  }, FULL);
  const { start, state, found } = steps;
  const isIncomplete = state === "finished" && Object.keys(sums.unreachable).length > 0;
  useEffect(start, [start]);
  useEffect(() => onRows(found.map(placeKey)), [onRows, found]);
  return (
    <Stack gap="xs" data-search={state}>
      <StepsBar
        steps={steps}
        progress={sums.progress}
        isIncomplete={isIncomplete}
        label={t("search.progress")}
        more={t("search.more")}
      >
        <Download path={`/api/v1/subjects/${encodeURIComponent(subject)}/messages/search/`} query={queryOf(criteria)} />
      </StepsBar>
      <Text size="sm" aria-live="polite">
        {t(`search.state.${isIncomplete ? "incomplete" : state}`)}{" "}
        {t("search.sums", {
          found: t("search.found", { count: found.length, shown: count(found.length, language) }),
          done: t("search.done", { count: sums.scanned, shown: count(sums.scanned, language) }),
        })}
      </Text>
      {state === "finished" && found.length === 0 && <NothingFound sums={sums} />}
      {(["unreadable", "costly"] as const).map(
        (what) =>
          sums[what] > 0 && (
            <Alert key={what} color="red">
              {t(`search.${what}`, { count: sums[what], shown: count(sums[what], language) })}
            </Alert>
          ),
      )}
      <Unreachable of={sums.unreachable} />
      {state === "failed" && <ProblemAlert error={steps.error} onRetry={steps.resume} />}
      {found.length > 0 && <Rows messages={found} />}
    </Stack>
  );
}

/** What the filter means, and what it did not look at. */
function NothingFound({ sums: { expression, searched } }: { sums: Sums }) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  const left = notSearched(searched);
  return (
    <>
      {left.length > 0 && (
        <Text size="sm">
          {t("search.not_searched", {
            parts: listed(
              left.map((part) => t(`search.part.${part}`)),
              language,
            ),
          })}
        </Text>
      )}
      {expression !== null && (
        <Text size="sm" className="break">
          {t("search.means")} <Code>{expression}</Code>
        </Text>
      )}
    </>
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
      hidden={HIDDEN}
      rowKey={placeKey}
      opening={{ onOpen: open, opened: search.message }}
    />
  );
}

const HIDDEN: ReadonlySet<string> = new Set(["message_id"]);
