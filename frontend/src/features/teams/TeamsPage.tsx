import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { CreateTeam } from "@/features/teams/CreateTeam";
import { teamsKey, type Team } from "@/features/teams/queries";
import { Instant } from "@/ui/Instant";
import { Measured } from "@/ui/Measured";
import { PageHeader } from "@/ui/PageHeader";
import { CreateButton } from "@/ui/buttons";
import { TeamLink } from "@/ui/links";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";

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
