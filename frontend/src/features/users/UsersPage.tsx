import { Badge, Group } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { list } from "@/api/requests";
import { CreateUser, RoleBadge } from "@/features/users/UserDialogs";
import { ROLES, usersKey, type User } from "@/features/users/queries";
import { personName } from "@/format/names";
import { CreateButton } from "@/ui/menu/buttons";
import { Instant } from "@/ui/measure/Instant";
import { TeamLink } from "@/ui/links/links";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { PageHeader } from "@/ui/page/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

/** Who may use the console. */
export default function UsersPage() {
  const { t } = useTranslation("users");
  const [isCreating, setCreating] = useState(false);
  const columns = useMemo(
    () =>
      defineColumns<User>(headers(t), (column) => [
        column("username", { sort: true, isFixed: true }, (row) => (
          <Group gap="xs" wrap="nowrap">
            <LinkTo to="/users/$id" params={{ id: row.id }}>
              {row.username}
            </LinkTo>
            {row.is_active === false && <Badge color="gray">{t("disabled")}</Badge>}
          </Group>
        )),
        column("name", (row) => personName(row) || "—"),
        column("email", (row) => row.email || "—"),
        column("role", (row) => <RoleBadge role={row.role} />),
        column("teams", ({ teams = [] }) =>
          teams.length === 0 ? (
            "—"
          ) : (
            <Group gap={4}>
              {teams.map((team) => (
                <TeamLink key={team} team={team} />
              ))}
            </Group>
          ),
        ),
        column("sessions", { align: "right" }, (row) => <Measured value={row.sessions} />),
        column("tokens", { align: "right" }, (row) => <Measured value={row.tokens} />),
        column("last_login", (row) => <Instant at={row.last_login} relative />),
        column("created_at", { sort: "date_joined", isHiddenAtFirst: true }, (row) => <Instant at={row.created_at} />),
      ]),
    [t],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      choice("role", t("column.role"), ROLES, (role) => t(`common:role.${role}`)),
      choice("is_active", t("filter.state"), { true: t("active"), false: t("disabled") }),
      { kind: "text", name: "team", label: t("filter.team") },
    ],
    [t],
  );
  return (
    <>
      <PageHeader
        title={t("common:nav.users")}
        actions={<CreateButton onClick={() => setCreating(true)}>{t("create.title")}</CreateButton>}
      />
      <DataTable
        label={t("common:nav.users")}
        queryKey={usersKey}
        load={list("/api/v1/users/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="username"
        download="/api/v1/users/"
      />
      <CreateUser opened={isCreating} onClose={() => setCreating(false)} />
    </>
  );
}
