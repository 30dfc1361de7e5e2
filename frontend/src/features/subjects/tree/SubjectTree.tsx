import "@/features/subjects/tree/tree.css";
import { Button, Text, UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { infiniteQueryOptions, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";
import { subjectsKey } from "@/features/subjects/queries";
import { parseOpen, toggled } from "@/features/subjects/tree/openFolders";
import { addressOf, RowLink } from "@/ui/links/RowLink";
import { useUrlState } from "@/ui/links/urlState";
import { Measured } from "@/ui/measure/Measured";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Frame } from "@/ui/table/Frame";
import { Table } from "@/ui/table/Table";

type Node = Schema<"SubjectNode">;

const REFRESH_MS = 10_000;
const COLUMNS = 3;
/** Levels that are indented further than the one above. */
const INDENTED_MAX = 8;

/** Subjects by the parts of their names; what is open is in the address. Folders are read when they are opened. */
export function SubjectTree({ empty }: { empty: ReactNode }) {
  const { t } = useTranslation("subjects");
  const isRead = useOpenFolders();
  return (
    <Frame label={t("tree.title")}>
      <Table stickyHeader highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("column.name")}</Table.Th>
            <Table.Th ta="right">{t("column.send_rate")}</Table.Th>
            <Table.Th ta="right">{t("column.worst_lag")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{isRead && <Folder name="" depth={0} empty={empty} />}</Table.Tbody>
      </Table>
    </Frame>
  );
}

/** Reads all folders that the address has open at once: one after the other, each would move down what is shown. */
function useOpenFolders(): boolean {
  const client = useQueryClient();
  const [search] = useUrlState();
  const [open] = useState(() => [...parseOpen(search.open)]);
  const [isRead, setRead] = useState(false);
  useEffect(() => {
    let isLeft = false;
    // A folder that can't be read says so in its place.
    const reads = ["", ...open].map((name) => client.infiniteQuery(folderOptions(name)));
    void Promise.allSettled(reads).then(() => {
      if (!isLeft) setRead(true);
    });
    return () => {
      isLeft = true;
    };
  }, [client, open]);
  return isRead;
}

function folderOptions(name: string) {
  return infiniteQueryOptions({
    queryKey: [...subjectsKey, "tree", name],
    queryFn: ({ pageParam, ...context }) =>
      read("/api/v1/subject-tree/", { query: { folder: name, cursor: pageParam } })(context),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
    staleTime: REFRESH_MS,
  });
}

/** What is in a folder: a row for each child, and below an open one what is in that. */
function Folder({ name, depth, empty }: { name: string; depth: number; empty?: ReactNode }) {
  const { t } = useTranslation("subjects");
  const found = useInfiniteQuery({ ...folderOptions(name), refetchInterval: REFRESH_MS });
  if (found.isError) {
    return (
      <Whole>
        <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />
      </Whole>
    );
  }
  const nodes = (found.data?.pages ?? []).flatMap((page) => page.results);
  return (
    <>
      {nodes.map((node) => (
        <Child key={node.name + String(node.is_folder)} node={node} folder={name} depth={depth} />
      ))}
      {found.isSuccess && nodes.length === 0 && <Whole>{empty ?? t("tree.empty")}</Whole>}
      {found.hasNextPage && (
        <Whole>
          <Button
            size="compact-xs"
            variant="subtle"
            loading={found.isFetching}
            onClick={() => void found.fetchNextPage()}
          >
            {t("tree.more", { folder: name || t("title") })}
          </Button>
        </Whole>
      )}
    </>
  );
}

function Whole({ children }: { children: ReactNode }) {
  return (
    <Table.Tr>
      <Table.Td colSpan={COLUMNS}>{children}</Table.Td>
    </Table.Tr>
  );
}

function Child({ node, folder, depth }: { node: Node; folder: string; depth: number }) {
  const { t } = useTranslation("subjects");
  const [search, change] = useUrlState();
  const open = parseOpen(search.open);
  const isOpen = node.is_folder && open.has(node.name);
  const Icon = isOpen ? IconChevronDown : IconChevronRight;
  const numbers = (field: "send_rate" | "highest_lag") => ({
    value: node[field],
    reason: node.reason,
    // "At least 0" says nothing.
    atLeast: node.at_least?.[field] || undefined,
  });
  return (
    <>
      <Table.Tr data-node={node.name}>
        <Table.Td data-depth={Math.min(depth, INDENTED_MAX)} className="tree-name">
          {node.is_folder ? (
            <UnstyledButton
              className="tree-folder"
              aria-expanded={isOpen}
              onClick={() => change({ open: toggled(open, node.name) })}
            >
              <Icon size={14} aria-hidden /> {node.name.slice(folder.length)}{" "}
              <Text span size="xs" c="dimmed" className="tree-count">
                {t("tree.count", { count: node.subjects })}
              </Text>
            </UnstyledButton>
          ) : (
            <span className="tree-subject">
              <RowLink to={addressOf("subjects", node.name)}>{node.name.slice(folder.length) || node.name}</RowLink>
            </span>
          )}
        </Table.Td>
        <Table.Td ta="right">
          <Measured {...numbers("send_rate")} as="rate" />
        </Table.Td>
        <Table.Td ta="right">
          <Lag {...numbers("highest_lag")} />
        </Table.Td>
      </Table.Tr>
      {isOpen && <Folder name={node.name} depth={depth + 1} />}
    </>
  );
}

/** Null without a reason is no unknown number: there are no consumer groups. */
function Lag(reading: { value: number | null; reason: string | null; atLeast: number | undefined }) {
  const { t } = useTranslation("subjects");
  return <Measured {...reading} reason={reading.reason ?? t("worst_lag.no_group")} as="compact" />;
}
