import { Badge, Button, Code, Group, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay, useMe } from "@/api/me";
import { CreateToken } from "@/features/tokens/CreateToken";
import { loadTokens, revokeToken, tokensKey, type Token } from "@/features/tokens/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { PageHeader } from "@/ui/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";
import { useUrlState } from "@/ui/urlState";

/** Tokens of one's own; an administrator sees another user's by `?owner=`. */
export default function TokensPage() {
  const { t } = useTranslation("tokens");
  const { t: common } = useTranslation();
  const may = useMay();
  const me = useMe();
  const client = useQueryClient();
  const [search] = useUrlState();
  const [isCreating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const isOthers = Boolean(search.owner) && search.owner !== me.username;
  const columns = useMemo<Column<Token>[]>(
    () => [
      { id: "name", header: t("column.name"), isFixed: true, cell: (row) => row.name },
      { id: "owner", header: t("column.owner"), isHiddenAtFirst: true, cell: (row) => row.owner },
      { id: "prefix", header: t("column.prefix"), cell: (row) => <Code>{row.prefix}…</Code> },
      {
        id: "scopes",
        header: t("column.scopes"),
        cell: (row) => (
          <Group gap={4}>
            {row.scopes.map((scope) => (
              <Badge key={scope} variant="light" tt="none">
                {t(`scope.${scope}`)}
              </Badge>
            ))}
          </Group>
        ),
      },
      {
        id: "state",
        header: t("column.state"),
        cell: (row) =>
          row.revoked_at ? (
            <Text span size="sm" c="dimmed">
              {t("state.revoked")} <Instant at={row.revoked_at} relative />
            </Text>
          ) : row.is_live ? (
            <Badge color="teal" variant="light">
              {t("state.live")}
            </Badge>
          ) : (
            <Badge color="gray">{t("state.expired")}</Badge>
          ),
      },
      { id: "expires_at", header: t("column.expires_at"), cell: (row) => <Instant at={row.expires_at} relative /> },
      {
        id: "last_used_at",
        header: t("column.last_used_at"),
        cell: (row) => (
          <>
            <Instant at={row.last_used_at} relative />
            {row.last_used_from && (
              <Text span size="sm" c="dimmed">
                {" "}
                · {row.last_used_from}
              </Text>
            )}
          </>
        ),
      },
      { id: "created_at", header: t("column.created_at"), cell: (row) => <Instant at={row.created_at} /> },
      {
        id: "revoke",
        card: "action",
        header: t("column.action"),
        isFixed: true,
        cell: (row) =>
          row.is_live && (
            <Button size="compact-sm" variant="default" onClick={() => setRevoking(row)} data-action="revoke">
              {t("revoke.action")}
            </Button>
          ),
      },
    ],
    [t],
  );
  const mayOthers = may("change_accounts");
  const filters = useMemo<Filter[]>(
    () => [
      {
        kind: "select",
        name: "is_live",
        label: t("column.state"),
        options: [
          { value: "true", label: t("state.live") },
          { value: "false", label: t("state.ended") },
        ],
      },
      ...(mayOthers ? [{ kind: "text", name: "owner", label: t("filter.owner") } as const] : []),
    ],
    [t, mayOthers],
  );
  return (
    <>
      <PageHeader
        title={isOthers ? t("of", { name: search.owner }) : common("nav.tokens")}
        description={t("what")}
        actions={
          <Button
            leftSection={<IconPlus size={16} aria-hidden />}
            onClick={() => setCreating(true)}
            data-action="create"
          >
            {t("create.title")}
          </Button>
        }
      />
      <DataTable
        label={common("nav.tokens")}
        queryKey={tokensKey}
        load={loadTokens}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        download="/api/v1/tokens/"
        empty={
          <Teach
            title={t("empty.title")}
            code={`curl -H "Authorization: Bearer $TOKEN" ${window.location.origin}/api/v1/subjects/`}
          >
            {t("empty.text")}
          </Teach>
        }
      />
      <CreateToken opened={isCreating} onClose={() => setCreating(false)} />
      <ChangeDialog
        opened={revoking !== null}
        onClose={() => setRevoking(null)}
        title={t("revoke.title")}
        run={(attempt) => revokeToken(revoking?.id ?? "", attempt)}
        confirmName={revoking?.name}
        actionLabel={t("revoke.action")}
        doneMessage={t("revoke.done")}
        onDone={() => void client.invalidateQueries({ queryKey: tokensKey })}
      />
    </>
  );
}
