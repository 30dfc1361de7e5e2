import { Center, Loader } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

interface Query<Data> {
  data: Data | undefined;
  error: unknown;
  refetch: () => unknown;
}

/** The problem of a query, with a way to try again; nothing when there is none. */
export function QueryProblem({ of: { error, refetch } }: { of: Omit<Query<unknown>, "data"> }) {
  return error ? <ProblemAlert error={error} onRetry={() => void refetch()} /> : null;
}

export function Loading({ label }: { label?: string }) {
  const { t } = useTranslation();
  return (
    <Center p="xl">
      <Loader aria-label={label ?? t("state.loading")} />
    </Center>
  );
}

/** What a query read, or what is drawn instead: its problem, or `waiting` until it is there. */
export function loaded<Data>(
  query: Query<Data>,
  waiting: ReactNode = <Loading />,
): [data: Data, instead: null] | [data: undefined, instead: ReactNode] {
  if (query.error) return [undefined, <QueryProblem key="problem" of={query} />];
  return query.data === undefined ? [undefined, waiting] : [query.data, null];
}
