import { Badge, Button, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { useMay } from "@/api/me";
import { change, list } from "@/api/requests";
import { DescribeTeam, EditMembers } from "@/features/teams/TeamDialogs";
import { teamOptions, teamsKey, type Member, type Team } from "@/features/teams/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { SubjectLink } from "@/ui/links/links";
import { Part } from "@/ui/page/Part";
import { ResourcePage } from "@/ui/page/ResourcePage";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import { usePathParams } from "@/ui/links/urlState";

/** One team: its members and what it owns. */
export default function TeamPage() {
  const { t } = useTranslation("teams");
  const { team: name } = usePathParams("team");
  const members = useMemo(
    () =>
      defineColumns<Member>(headers(t), (column) => [
        column("username", { isFixed: true }, (row) => row.username),
        column("role", (row) => t(`common:role.${row.role}`)),
        column("is_active", { header: t("column.state") }, (row) =>
          row.is_active ? t("active") : <Badge color="gray">{t("disabled")}</Badge>,
        ),
      ]),
    [t],
  );
  const subjects = useMemo(
    () =>
      defineColumns<Schema<"SubjectRow">>(headers(t), (column) => [
        column("name", { header: t("column.subject"), sort: true, isFixed: true }, (row) => (
          <SubjectLink subject={row.name} />
        )),
        column("updated_at", (row) => <Instant at={row.updated_at} relative />),
      ]),
    [t],
  );
  return (
    <ResourcePage
      query={useQuery(teamOptions(name))}
      title={name}
      crumb={{ label: t("common:nav.teams"), to: "/teams" }}
      header={(team, etag) => team && { description: team.description, actions: <Actions team={team} etag={etag} /> }}
    >
      {() => (
        <Stack gap="lg">
          <Part title={t("members.title")}>
            <DataTable
              label={t("members.title")}
              queryKey={[...teamsKey, name, "members"]}
              load={list("/api/v1/teams/{team}/members/", { path: { team: name } })}
              columns={members}
              rowKey={(row) => row.username}
              prefix="m_"
              download={`/api/v1/teams/${encodeURIComponent(name)}/members/`}
            />
          </Part>
          <Part title={t("subjects.title")}>
            <DataTable
              label={t("subjects.title")}
              queryKey={["subjects", "of", name]}
              load={list("/api/v1/subjects/", { query: { owner: name } })}
              columns={subjects}
              rowKey={(row) => row.name}
              ordering="name"
              prefix="s_"
            />
          </Part>
        </Stack>
      )}
    </ResourcePage>
  );
}

function Actions({ team, etag }: { team: Team; etag: string | null }) {
  const { t } = useTranslation("teams");
  const may = useMay();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"members" | "describe" | "delete" | null>(null);
  if (!may("change_accounts")) return null;
  const shared = { onClose: () => setOpen(null), refreshes: [teamsKey, ["users"], ["me"]] };
  const isOwner = team.subjects > 0;
  return (
    <>
      <Button onClick={() => setOpen("members")} data-action="members">
        {t("members.edit")}
      </Button>
      <Button variant="default" onClick={() => setOpen("describe")} data-action="describe">
        {t("describe.title")}
      </Button>
      <Button
        variant="default"
        color="red"
        disabled={isOwner}
        title={isOwner ? t("delete.owns", { count: team.subjects }) : undefined}
        onClick={() => setOpen("delete")}
        data-action="delete"
      >
        {t("delete.title")}
      </Button>
      {open === "members" && <EditMembers team={team.name} etag={etag} {...shared} />}
      {open === "describe" && <DescribeTeam team={team} etag={etag} {...shared} />}
      <ChangeDialog
        {...shared}
        opened={open === "delete"}
        title={t("delete.title")}
        run={(attempt) => change("delete", "/api/v1/teams/{team}/", attempt, { path: { team: team.name }, etag })}
        confirmName={team.name}
        actionLabel={t("delete.action")}
        doneMessage={t("delete.done", { name: team.name })}
        onDone={() => void navigate({ to: "/teams" })}
      />
    </>
  );
}
