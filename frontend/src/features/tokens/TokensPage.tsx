import { Badge, Button, Code, Group, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay, useMe } from "@/api/me";
import { change, list } from "@/api/requests";
import { CreateToken, tokensKey, type Token } from "@/features/tokens/CreateToken";
import { CreateButton } from "@/ui/menu/buttons";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { PageHeader } from "@/ui/page/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/shared/Teach";
import { useUrlState } from "@/ui/links/urlState";

/** Tokens of one's own; an administrator sees another user's by `?owner=`. */
export default function TokensPage() {
  const { t } = useTranslation("tokens");
  const may = useMay();
  const me = useMe();
  const [search] = useUrlState();
  const [isCreating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const isOthers = Boolean(search.owner) && search.owner !== me.username;
  const columns = useMemo(
    () =>
      defineColumns<Token>(headers(t), (column) => [
        column("name", { isFixed: true }, (row) => row.name),
        column("owner", { isHiddenAtFirst: true }, (row) => row.owner),
        column("prefix", (row) => <Code>{row.prefix}…</Code>),
        column("scopes", (row) => (
          <Group gap={4}>
            {row.scopes.map((scope) => (
              <Badge key={scope} variant="light" tt="none">
                {t(`scope.${scope}`)}
              </Badge>
            ))}
          </Group>
        )),
        column("state", (row) =>
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
        ),
        column("expires_at", (row) => <Instant at={row.expires_at} relative />),
        column("last_used_at", (row) => (
          <>
            <Instant at={row.last_used_at} relative />
            {row.last_used_from && (
              <Text span size="sm" c="dimmed">
                {" "}
                · {row.last_used_from}
              </Text>
            )}
          </>
        )),
        column("created_at", (row) => <Instant at={row.created_at} />),
        column(
          "revoke",
          { card: "action", header: t("column.action"), isFixed: true },
          (row) =>
            row.is_live && (
              <Button size="compact-sm" variant="default" onClick={() => setRevoking(row)} data-action="revoke">
                {t("revoke.action")}
              </Button>
            ),
        ),
      ]),
    [t],
  );
  const mayOthers = may("change_accounts");
  const filters = useMemo<Filter[]>(
    () => [
      choice("is_live", t("column.state"), { true: t("state.live"), false: t("state.ended") }),
      ...(mayOthers ? [{ kind: "text", name: "owner", label: t("filter.owner") } as const] : []),
    ],
    [t, mayOthers],
  );
  return (
    <>
      <PageHeader
        title={isOthers ? t("of", { name: search.owner }) : t("common:nav.tokens")}
        description={t("what")}
        actions={<CreateButton onClick={() => setCreating(true)}>{t("create.title")}</CreateButton>}
      />
      <DataTable
        label={t("common:nav.tokens")}
        queryKey={tokensKey}
        load={list("/api/v1/tokens/")}
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
        run={(attempt) =>
          change("delete", "/api/v1/tokens/{token_id}/", attempt, { path: { token_id: Number(revoking?.id) } })
        }
        confirmName={revoking?.name}
        actionLabel={t("revoke.action")}
        doneMessage={t("revoke.done")}
        refreshes={[tokensKey]}
      />
    </>
  );
}
