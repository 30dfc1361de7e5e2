import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { CausesOverTime } from "@/features/dead_letters/CausesOverTime";
import { allCausesOptions, loadCounts, type LetterCount, deadLettersKey } from "@/features/dead_letters/queries";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { Loading } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { SubjectLink } from "@/ui/links/links";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/shared/Teach";

const GIVES_UP = `@app.consumer("order.paid", group="billing", attempts_max=3)
async def charge(delivery):
    raise ValueError("no such card")  # after 3 attempts: a dead letter`;

/** How many dead letters each consumer group of a subject has. */
export default function CountsPage() {
  const { t } = useTranslation("dead_letters");
  const { data: causes, isPending } = useQuery(allCausesOptions());
  const columns = useMemo(
    () =>
      defineColumns<LetterCount>(headers(t), (column) => [
        column("group", { isFixed: true }, ({ subject, group }) => (
          <LinkTo to="/dead-letters/$subject/$group" params={{ subject, group }}>
            {group}
          </LinkTo>
        )),
        column("subject", { card: "line" }, ({ subject }) => <SubjectLink subject={subject} />),
        column("open", { align: "right" }, (row) => <Open value={row.open} />),
        column("replayed", { align: "right" }, ({ replayed }) => <Measured value={replayed} />),
        column("deleted", { align: "right" }, ({ deleted }) => <Measured value={deleted} />),
        column("stored", { align: "right" }, ({ stored }) => <Measured value={stored} />),
        column("newest", ({ newest }) => <Instant at={newest} relative />),
        column("oldest", ({ oldest }) => <Instant at={oldest} relative />),
        column("broker_groups", { isHiddenAtFirst: true }, (row) =>
          Object.entries(row.broker_groups)
            .map(([name, stored]) => `${name}: ${stored}`)
            .join(", "),
        ),
      ]),
    [t],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "text", name: "subject", label: t("filter.subject") },
      { kind: "text", name: "group", label: t("filter.group") },
    ],
    [t],
  );
  return (
    <>
      <PageHeader title={t("common:nav.dead_letters")} description={t("description")} />
      {causes && <CausesOverTime causes={causes} name={(_, text) => text} />}
      {isPending && <Loading />}
      {/* Loads meanwhile, and is shown together with what stands above it. */}
      <div hidden={isPending}>
        <DataTable
          label={t("common:nav.dead_letters")}
          queryKey={[...deadLettersKey, "counts"]}
          load={loadCounts}
          columns={columns}
          filters={filters}
          rowKey={({ subject, group }) => `${subject} ${group}`}
          download="/api/v1/dead-letters/"
          refetchMs={15_000}
          empty={
            <Teach title={t("empty.title")} code={GIVES_UP}>
              {t("empty.text")}
            </Teach>
          }
        />
      </div>
    </>
  );
}

/** Those that wait for a decision stand out. */
function Open({ value }: { value: number }) {
  return value > 0 ? (
    <b data-open={value}>
      <Measured value={value} />
    </b>
  ) : (
    <Measured value={value} />
  );
}
