import type { ComponentProps, ReactNode } from "react";
import { asProblem } from "@/api/problem";
import { Loading, QueryProblem } from "@/ui/page/loaded";
import { PageHeader, type Crumb } from "@/ui/page/PageHeader";

type Header = Omit<ComponentProps<typeof PageHeader>, "title" | "crumbs">;

const NOT_FOUND = 404;

/**
 * The page of one resource: its name at once, the rest when it was read. Problems stand above what was read before.
 * `unknown` replaces the problem where there is no such resource.
 */
export function ResourcePage<Row>({
  query,
  title,
  crumb,
  header,
  waiting = <Loading />,
  unknown,
  notice,
  children,
}: {
  query: { data: { data: Row; etag: string | null } | undefined; error: unknown; refetch: () => unknown };
  title: string | ((row: Row | undefined) => string);
  crumb: Crumb;
  header: (row: Row | undefined, etag: string | null) => Header | undefined;
  waiting?: ReactNode;
  unknown?: ReactNode;
  /** Above the rest, as soon as the page is there. */
  notice?: ReactNode;
  children: (row: Row, etag: string | null) => ReactNode;
}) {
  const { data: { data: row, etag } = { data: undefined, etag: null }, error } = query;
  const isUnknown = unknown !== undefined && Boolean(error) && asProblem(error).status === NOT_FOUND;
  return (
    <>
      <PageHeader title={typeof title === "string" ? title : title(row)} crumbs={[crumb]} {...header(row, etag)} />
      {isUnknown ? unknown : <QueryProblem of={query} />}
      {notice}
      {row !== undefined && !isUnknown && children(row, etag)}
      {row === undefined && !error && waiting}
    </>
  );
}
