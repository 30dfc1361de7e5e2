import { Badge, Button, Group } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { CreateUser } from "@/features/users/CreateUser";
import { loadUsers, ROLES, usersKey, type User } from "@/features/users/queries";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { Measured } from "@/ui/Measured";
import { PageHeader } from "@/ui/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";

/** Who may use the console. */
export default function UsersPage() {
  const { t } = useTranslation("users");
  const { t: common } = useTranslation();
  const [isCreating, setCreating] = useState(false);
  const columns = useMemo<Column<User>[]>(
    () => [
      {
        id: "username",
        header: t("column.username"),
        sort: "username",
        isFixed: true,
        cell: (row) => (
          <Group gap="xs" wrap="nowrap">
            <LinkTo to="/users/$id" params={{ id: row.id }}>
              {row.username}
            </LinkTo>
            {row.is_active === false && <Badge color="gray">{t("disabled")}</Badge>}
          </Group>
        ),
      },
      {
        id: "name",
        header: t("column.name"),
        cell: (row) => [row.first_name, row.last_name].filter(Boolean).join(" ") || "—",
      },
      { id: "email", header: t("column.email"), cell: (row) => row.email ?? "—" },
      {
        id: "role",
        header: t("column.role"),
        cell: (row) => (
          <Badge variant="light" tt="none" color={row.role === "admin" ? "orange" : "blue"}>
            {common(`role.${row.role ?? "viewer"}`)}
          </Badge>
        ),
      },
      {
        id: "teams",
        header: t("column.teams"),
        cell: (row) => (
          <Group gap={4}>
            {row.teams?.map((team) => (
              <LinkTo key={team} to="/teams/$team" params={{ team }} size="sm">
                {team}
              </LinkTo>
            ))}
          </Group>
        ),
      },
      {
        id: "sessions",
        header: t("column.sessions"),
        align: "right",
        cell: (row) => <Measured value={row.sessions} />,
      },
      { id: "tokens", header: t("column.tokens"), align: "right", cell: (row) => <Measured value={row.tokens} /> },
      { id: "last_login", header: t("column.last_login"), cell: (row) => <Instant at={row.last_login} relative /> },
      {
        id: "created_at",
        header: t("column.created_at"),
        sort: "date_joined",
        isHiddenAtFirst: true,
        cell: (row) => <Instant at={row.created_at} />,
      },
    ],
    [t, common],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      {
        kind: "select",
        name: "role",
        label: t("column.role"),
        options: ROLES.map((role) => ({ value: role, label: common(`role.${role}`) })),
      },
      {
        kind: "select",
        name: "is_active",
        label: t("filter.state"),
        options: [
          { value: "true", label: t("active") },
          { value: "false", label: t("disabled") },
        ],
      },
      { kind: "text", name: "team", label: t("filter.team") },
    ],
    [t, common],
  );
  return (
    <>
      <PageHeader
        title={common("nav.users")}
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
        label={common("nav.users")}
        queryKey={usersKey}
        load={loadUsers}
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
