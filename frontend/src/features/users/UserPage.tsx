import { Badge, Button, Group, Paper } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import type { Change } from "@/api/client";
import { change, type Attempt } from "@/api/requests";
import { EditUser, RoleBadge } from "@/features/users/UserDialogs";
import { updateUser, userOptions, usersKey, type User } from "@/features/users/queries";
import { personName } from "@/format/names";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { FactTable, type Fact } from "@/ui/page/FactTable";
import { Instant } from "@/ui/measure/Instant";
import { TeamLink } from "@/ui/links/links";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { ResourcePage } from "@/ui/page/ResourcePage";
import { usePathParams } from "@/ui/links/urlState";

/** One user: what they are, and what can be done about them. */
export default function UserPage() {
  const { t } = useTranslation("users");
  const { id } = usePathParams("id");
  return (
    <ResourcePage
      query={useQuery(userOptions(id))}
      title={(user) => user?.username ?? t("one", { id })}
      crumb={{ label: t("common:nav.users"), to: "/users" }}
      header={(user, etag) =>
        user && {
          badges: (
            <>
              <RoleBadge role={user.role} />
              {user.is_active === false && <Badge color="gray">{t("disabled")}</Badge>}
            </>
          ),
          actions: <Actions user={user} etag={etag} />,
        }
      }
    >
      {(user) => <Facts user={user} />}
    </ResourcePage>
  );
}

type Deed = "end_sessions" | "unlock" | "disable" | "enable";

function Actions({ user, etag }: { user: User; etag: string | null }) {
  const { t } = useTranslation("users");
  const me = useMe();
  const [open, setOpen] = useState<"edit" | Deed | null>(null);
  const { id, username: name } = user;
  const path = { user_id: Number(id) };
  const shared = { onClose: () => setOpen(null), refreshes: id === me.id ? [usersKey, ["me"]] : [usersKey] };
  const run: Record<Deed, (attempt: Attempt) => Promise<Change>> = {
    end_sessions: (attempt) => change("post", "/api/v1/users/{user_id}/end-sessions/", attempt, { path }),
    unlock: (attempt) => change("post", "/api/v1/users/{user_id}/unlock/", attempt, { path }),
    disable: (attempt) => updateUser(id, { is_active: false }, etag, attempt),
    enable: (attempt) => updateUser(id, { is_active: true }, etag, attempt),
  };
  return (
    <>
      {(["edit", "end_sessions", "unlock", user.is_active === false ? "enable" : "disable"] as const).map((deed) => (
        <Button
          key={deed}
          variant={deed === "edit" ? undefined : "default"}
          color={deed === "disable" ? "red" : undefined}
          onClick={() => setOpen(deed)}
          data-action={deed.replace("_", "-")}
        >
          {t(`${deed}.title`)}
        </Button>
      ))}
      {open === "edit" && <EditUser user={user} etag={etag} {...shared} />}
      {open && open !== "edit" && (
        <ChangeDialog
          {...shared}
          title={t(`${open}.title`)}
          run={run[open]}
          confirmName={open === "disable" ? name : undefined}
          actionLabel={t(`${open}.action`)}
          doneMessage={t(`${open}.done`, { name })}
        />
      )}
    </>
  );
}

function Facts({ user }: { user: User }) {
  const { t } = useTranslation("users");
  const facts: Fact[] = [
    [t("column.name"), personName(user) || "—"],
    [t("column.email"), user.email || "—"],
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
      <FactTable facts={facts} width={200} />
    </Paper>
  );
}
