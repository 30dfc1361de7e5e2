import type { ComponentProps, ReactNode } from "react";
import { asProblem } from "@/api/problem";
import { Loading, QueryProblem } from "@/ui/loaded";
import { PageHeader, type Crumb } from "@/ui/PageHeader";

type Header = Omit<ComponentProps<typeof PageHeader>, "title" | "crumbs">;

const NOT_FOUND = 404;

/**
 * The page of one resource: its name at once, the rest when it was read. Problems stand above what was read before. `unknown` replaces
 * the problem where there is no such resource.
 */
export function ResourcePage<Row>({
  query,
  title,
  crumb,
  header,
  waiting = <Loading />,
  unknown,
  children,
}: {
  query: { data: { data: Row; etag: string | null } | undefined; error: unknown; refetch: () => unknown };
  title: string;
  crumb: Crumb;
  header: (row: Row | undefined, etag: string | null) => Header;
  waiting?: ReactNode;
  unknown?: ReactNode;
  children: (row: Row, etag: string | null) => ReactNode;
}) {
  const { data: { data: row, etag } = { data: undefined, etag: null }, error } = query;
  const isUnknown = unknown !== undefined && Boolean(error) && asProblem(error).status === NOT_FOUND;
  return (
    <>
      <PageHeader title={title} crumbs={[crumb]} {...header(row, etag)} />
      {isUnknown ? unknown : <QueryProblem of={query} />}
      {row !== undefined && children(row, etag)}
      {row === undefined && !error && waiting}
    </>
  );
}
