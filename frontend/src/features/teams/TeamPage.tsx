import { Badge, Button, Center, Loader, Stack } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { DescribeTeam } from "@/features/teams/DescribeTeam";
import { EditMembers } from "@/features/teams/EditMembers";
import {
  deleteTeam,
  loadMembers,
  loadSubjectsOf,
  teamOptions,
  teamsKey,
  type Member,
  type OwnedSubject,
  type Team,
} from "@/features/teams/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { PageHeader, type Crumb } from "@/ui/PageHeader";
import { Part } from "@/ui/Part";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { SubjectLink } from "@/ui/links";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import { usePathParams } from "@/ui/usePathParams";

/** One team: its members and what it owns. */
export default function TeamPage() {
  const { t } = useTranslation("teams");
  const { team: name } = usePathParams("team");
  const found = useQuery(teamOptions(name));
  const crumbs: readonly Crumb[] = [{ label: t("common:nav.teams"), to: "/teams" }];
  const load = useMemo(() => ({ members: loadMembers(name), subjects: loadSubjectsOf(name) }), [name]);
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
      defineColumns<OwnedSubject>(headers(t), (column) => [
        column("name", { header: t("column.subject"), sort: true, isFixed: true }, (row) => (
          <SubjectLink subject={row.name} />
        )),
        column("updated_at", (row) => <Instant at={row.updated_at} relative />),
      ]),
    [t],
  );
  if (found.isError) {
    return (
      <>
        <PageHeader title={name} crumbs={crumbs} />
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
  const { data: team, etag } = found.data;
  return (
    <>
      <PageHeader
        title={team.name}
        crumbs={crumbs}
        description={team.description}
        actions={<Actions team={team} etag={etag} />}
      />
      <Stack gap="lg">
        <Part title={t("members.title")}>
          <DataTable
            label={t("members.title")}
            queryKey={[...teamsKey, name, "members"]}
            load={load.members}
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
            load={load.subjects}
            columns={subjects}
            rowKey={(row) => row.name}
            ordering="name"
            prefix="s_"
          />
        </Part>
      </Stack>
    </>
  );
}

function Actions({ team, etag }: { team: Team; etag: string | null }) {
  const { t } = useTranslation("teams");
  const may = useMay();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"members" | "describe" | "delete" | null>(null);
  if (!may("change_accounts")) return null;
  const close = () => setOpen(null);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: teamsKey });
    void client.invalidateQueries({ queryKey: ["users"] });
    void client.invalidateQueries({ queryKey: ["me"] });
  };
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
      <EditMembers team={team.name} etag={etag} opened={open === "members"} onClose={close} onDone={refresh} />
      <DescribeTeam team={team} etag={etag} opened={open === "describe"} onClose={close} onDone={refresh} />
      <ChangeDialog
        opened={open === "delete"}
        onClose={close}
        title={t("delete.title")}
        run={(attempt) => deleteTeam(team.name, etag, attempt)}
        confirmName={team.name}
        actionLabel={t("delete.action")}
        doneMessage={t("delete.done", { name: team.name })}
        onDone={() => void navigate({ to: "/teams" }).then(refresh)}
      />
    </>
  );
}
