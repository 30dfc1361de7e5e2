import { TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { change, list } from "@/api/requests";
import { teamsKey, type Team } from "@/features/teams/queries";
import { CreateButton } from "@/ui/menu/buttons";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { Instant } from "@/ui/measure/Instant";
import { TeamLink } from "@/ui/links/links";
import { Measured } from "@/ui/measure/Measured";
import { PageHeader } from "@/ui/page/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/shared/Teach";

const FIRST_TEAM = `teams:
  - name: shop
    description: Orders and payments`;

/** Who owns what: an operator acts on subjects of their teams. */
export default function TeamsPage() {
  const { t } = useTranslation("teams");
  const may = useMay();
  const [isCreating, setCreating] = useState(false);
  const columns = useMemo(
    () =>
      defineColumns<Team>(headers(t), (column) => [
        column("name", { sort: true, isFixed: true }, (row) => <TeamLink team={row.name} />),
        column("description", (row) => row.description || "—"),
        column("members", { align: "right" }, (row) => <Measured value={row.members} />),
        column("subjects", { align: "right" }, (row) => <Measured value={row.subjects} />),
        column("created_at", { sort: true }, (row) => <Instant at={row.created_at} relative />),
      ]),
    [t],
  );
  const filters = useMemo<Filter[]>(() => [{ kind: "search", name: "search", label: t("filter.search") }], [t]);
  const create = may("change_accounts") && (
    <CreateButton onClick={() => setCreating(true)}>{t("create.title")}</CreateButton>
  );
  return (
    <>
      <PageHeader title={t("common:nav.teams")} actions={create} />
      <DataTable
        label={t("common:nav.teams")}
        queryKey={teamsKey}
        load={list("/api/v1/teams/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.name}
        ordering="name"
        download="/api/v1/teams/"
        empty={
          <Teach title={t("empty.title")} code={FIRST_TEAM}>
            {t("empty.text")}
          </Teach>
        }
      />
      <CreateTeam opened={isCreating} onClose={() => setCreating(false)} />
    </>
  );
}

const EMPTY = { name: "", description: "" };

/** A new team, without members yet. */
function CreateTeam({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("teams");
  const [team, setTeam] = useState(EMPTY);
  const fields = fieldsOf(team, (some) => setTeam({ ...team, ...some }), "NewTeamRequest");
  return (
    <PreviewDialog
      opened={opened}
      onClose={onClose}
      title={t("create.title")}
      run={(attempt) => change("post", "/api/v1/teams/", attempt, { body: { ...team, name: team.name.trim() } })}
      inputs={JSON.stringify(team)}
      isReady={team.name.trim() !== ""}
      actionLabel={t("common:action.create")}
      doneMessage={t("create.done", { name: team.name.trim() })}
      refreshes={[teamsKey]}
      onDone={() => setTeam(EMPTY)}
    >
      <TextInput
        label={t("column.name")}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        {...fields.text("name")}
      />
      <TextInput label={t("column.description")} {...fields.text("description")} />
    </PreviewDialog>
  );
}
