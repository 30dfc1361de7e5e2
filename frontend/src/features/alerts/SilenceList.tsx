import { Badge, Button } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { EndSilenceDialog } from "@/features/alerts/Dialogs";
import { alertsKey } from "@/api/alerts";
import { REFRESH_MS, type Silence } from "@/features/alerts/queries";
import { SilenceDialog } from "@/shared/alerts/SilenceDialog";
import { Instant } from "@/ui/measure/Instant";
import { CreateButton } from "@/ui/menu/buttons";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/shared/Teach";
import { useNow } from "@/ui/measure/useNow";

/** Which alerts send no notifications, until when, why. */
export function SilenceList() {
  const { t } = useTranslation("alerts");
  const may = useMay();
  const canChange = may("change_alerts");
  const [isCreating, setCreating] = useState(false);
  const [ending, setEnding] = useState<Silence | null>(null);
  const columns = useMemo(
    () =>
      defineColumns<Silence>(headers(t), (column) => [
        column("state", (row) => <State silence={row} />),
        column("rule", { header: t("silence.rules"), sort: true, isFixed: true }, (row) => (
          <code className="break">{row.rule}</code>
        )),
        column("target", { header: t("silence.targets"), sort: true }, (row) => (
          <code className="break">{row.target}</code>
        )),
        column("reason", { header: t("silence.reason") }, (row) => <span className="break">{row.reason}</span>),
        column("starts_at", { header: t("column.since"), sort: true }, (row) => <Instant at={row.starts_at} />),
        column("ends_at", { card: "fact", header: t("column.until"), sort: true }, (row) => (
          <Instant at={row.ends_at} relative />
        )),
        column("created_by", { sort: true }, (row) => row.created_by),
        column("ended_by", { isHiddenAtFirst: true }, (row) => row.ended_by ?? "—"),
        canChange && column("action", { card: "action" }, (row) => <End silence={row} onEnd={() => setEnding(row)} />),
      ]),
    [t, canChange],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "text", name: "rule", label: t("silence.rules") },
      { kind: "text", name: "target", label: t("silence.targets") },
      choice("is_active", t("column.state"), { true: t("silence.active"), false: t("silence.inactive") }),
    ],
    [t],
  );
  return (
    <>
      <DataTable
        label={t("tab.silences")}
        queryKey={[...alertsKey, "silences"]}
        load={list("/api/v1/silences/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        download="/api/v1/silences/"
        refetchMs={REFRESH_MS}
        actions={canChange && <CreateButton onClick={() => setCreating(true)}>{t("silence.create")}</CreateButton>}
        empty={<Teach title={t("alert_pages:empty.silences")}>{t("alert_pages:empty.silences_text")}</Teach>}
      />
      {isCreating && <SilenceDialog onClose={() => setCreating(false)} />}
      {ending && <EndSilenceDialog silence={ending} onClose={() => setEnding(null)} />}
    </>
  );
}

function State({ silence }: { silence: Silence }) {
  const { t } = useTranslation("alerts");
  const now = useNow();
  const isAhead = Date.parse(silence.starts_at) > now;
  if (silence.is_active) return <Badge color="blue">{t("silence.active")}</Badge>;
  return (
    <Badge color="gray" variant="light">
      {t(isAhead ? "silence.ahead" : "silence.over")}
    </Badge>
  );
}

/** What is over can't be ended; what is still ahead can. */
function End({ silence, onEnd }: { silence: Silence; onEnd: () => void }) {
  const { t } = useTranslation("alerts");
  const now = useNow();
  if (Date.parse(silence.ends_at) <= now) return null;
  return (
    <Button
      size="compact-sm"
      variant="default"
      aria-label={t("silence.end_of", { rule: silence.rule, target: silence.target })}
      onClick={onEnd}
    >
      {t("silence.end")}
    </Button>
  );
}
