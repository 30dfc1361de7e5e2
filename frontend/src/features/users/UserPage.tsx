import { Badge, Button, Center, Group, Loader, Paper, Table } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { useMe } from "@/api/me";
import { EditUser } from "@/features/users/EditUser";
import { endSessions, unlockUser, updateUser, userOptions, usersKey, type User } from "@/features/users/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { Measured } from "@/ui/Measured";
import { PageHeader, type Crumb } from "@/ui/PageHeader";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { TeamLink } from "@/ui/links";
import { usePathParams } from "@/ui/usePathParams";

/** One user: what they are, and what can be done about them. */
export default function UserPage() {
  const { t } = useTranslation("users");
  const { id } = usePathParams("id");
  const found = useQuery(userOptions(id));
  const crumbs: readonly Crumb[] = [{ label: t("common:nav.users"), to: "/users" }];
  if (found.isError) {
    return (
      <>
        <PageHeader title={t("one", { id })} crumbs={crumbs} />
        <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />
      </>
    );
  }
  if (!found.data) {
    return (
      <Center p="xl">
        <Loader aria-label={t("common:state.loading")} />
      </Center>
    );
  }
  const { data: user, etag } = found.data;
  return (
    <>
      <PageHeader
        title={user.username}
        crumbs={crumbs}
        badges={
          <>
            <Badge variant="light" tt="none" color={user.role === "admin" ? "orange" : "blue"}>
              {t(`common:role.${user.role ?? "viewer"}`)}
            </Badge>
            {user.is_active === false && <Badge color="gray">{t("disabled")}</Badge>}
          </>
        }
        actions={<Actions user={user} etag={etag} />}
      />
      <Facts user={user} />
    </>
  );
}

function Actions({ user, etag }: { user: User; etag: string | null }) {
  const { t } = useTranslation("users");
  const me = useMe();
  const client = useQueryClient();
  const [open, setOpen] = useState<"edit" | "active" | "sessions" | "unlock" | null>(null);
  const close = () => setOpen(null);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: usersKey });
    if (user.id === me.id) void client.invalidateQueries({ queryKey: ["me"] });
  };
  const isActive = user.is_active !== false;
  return (
    <>
      <Button onClick={() => setOpen("edit")} data-action="edit">
        {t("edit.title")}
      </Button>
      <Button variant="default" onClick={() => setOpen("sessions")} data-action="end-sessions">
        {t("end_sessions.title")}
      </Button>
      <Button variant="default" onClick={() => setOpen("unlock")} data-action="unlock">
        {t("unlock.title")}
      </Button>
      <Button
        variant="default"
        color={isActive ? "red" : undefined}
        onClick={() => setOpen("active")}
        data-action={isActive ? "disable" : "enable"}
      >
        {isActive ? t("disable.title") : t("enable.title")}
      </Button>
      <EditUser user={user} etag={etag} opened={open === "edit"} onClose={close} onDone={refresh} />
      <ChangeDialog
        opened={open === "sessions"}
        onClose={close}
        title={t("end_sessions.title")}
        run={(attempt) => endSessions(user.id, attempt)}
        actionLabel={t("end_sessions.action")}
        doneMessage={t("end_sessions.done", { name: user.username })}
        onDone={refresh}
      />
      <ChangeDialog
        opened={open === "unlock"}
        onClose={close}
        title={t("unlock.title")}
        run={(attempt) => unlockUser(user.id, attempt)}
        actionLabel={t("unlock.action")}
        doneMessage={t("unlock.done", { name: user.username })}
        onDone={refresh}
      />
      <ChangeDialog
        opened={open === "active"}
        onClose={close}
        title={isActive ? t("disable.title") : t("enable.title")}
        run={(attempt) => updateUser(user.id, { is_active: !isActive }, etag, attempt)}
        confirmName={isActive ? user.username : undefined}
        actionLabel={isActive ? t("disable.action") : t("enable.action")}
        doneMessage={isActive ? t("disable.done", { name: user.username }) : t("enable.done", { name: user.username })}
        onDone={refresh}
      />
    </>
  );
}

function Facts({ user }: { user: User }) {
  const { t } = useTranslation("users");
  const facts: [string, ReactNode][] = [
    [t("column.name"), [user.first_name, user.last_name].filter(Boolean).join(" ") || "—"],
    [t("column.email"), user.email ?? "—"],
    [
      t("column.teams"),
      user.teams?.length ? (
        <Group gap="xs">
          {user.teams.map((team) => (
            <TeamLink key={team} team={team} />
          ))}
        </Group>
      ) : (
        "—"
      ),
    ],
    [t("signs_in"), user.has_password ? t("by_password") : t("by_provider")],
    [t("column.sessions"), <Measured key="sessions" value={user.sessions} />],
    [
      t("column.tokens"),
      <Group key="tokens" gap="xs">
        <Measured value={user.tokens} />
        <LinkTo to="/tokens" search={{ owner: user.username }} size="sm">
          {t("show_tokens")}
        </LinkTo>
      </Group>,
    ],
    [t("column.last_login"), <Instant key="last" at={user.last_login} />],
    [t("column.created_at"), <Instant key="created" at={user.created_at} />],
  ];
  return (
    <Paper withBorder radius="md" maw={760}>
      <Table variant="vertical" layout="auto">
        <Table.Tbody>
          {facts.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th scope="row" w={200}>
                {label}
              </Table.Th>
              <Table.Td className="break">{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}
