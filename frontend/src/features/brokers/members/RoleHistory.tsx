import { Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { changed, type RoleChange } from "@/features/brokers/members/members";
import { TextButton } from "@/ui/menu/buttons";
import { Instant } from "@/ui/measure/Instant";
import { Part } from "@/ui/page/Part";
import { useRecordedReason } from "@/ui/reasons";
import { defineColumns } from "@/ui/table/define";
import { TableView } from "@/ui/table/TableView";

/** Changes that are shown at first. */
const SHOWN_AT_FIRST = 5;

/** The changes of a broker group's master, members and in-sync set, newest first. */
export function RoleHistory({ name, changes }: { name: string; changes: readonly RoleChange[] }) {
  const { t } = useTranslation("brokers");
  const reasonOf = useRecordedReason();
  const [isWhole, setWhole] = useState(false);
  const columns = defineColumns<RoleChange>(
    (id) => t(`history.${id}`),
    (column) => [
      column("change", { isFixed: true }, ({ action }) => {
        const name = action.replace("broker_group.", "");
        return t(`history.action.${name}`, { defaultValue: name.replaceAll("_", " ") });
      }),
      column("at", { card: "state" }, ({ at }) => <Instant at={at} relative />),
      column("from", { card: "fact" }, (change) => <span className="break">{changed(change).from}</span>),
      column("to", { card: "fact" }, (change) => <span className="break">{changed(change).to}</span>),
      column("actor", { card: "fact" }, ({ actor }) => actor),
      column("reason", { card: "action" }, (change) => (
        <Text size="sm" className="break">
          {reasonOf(change) || "—"}
        </Text>
      )),
    ],
  );
  return (
    <Part title={t("history.title")} isRegion>
      <TableView
        label={`${name}: ${t("history.title")}`}
        rows={isWhole ? changes : changes.slice(0, SHOWN_AT_FIRST)}
        columns={columns}
        rowKey={rowKey}
      />
      {changes.length > SHOWN_AT_FIRST && !isWhole && (
        <TextButton mt="xs" onClick={() => setWhole(true)}>
          {t("history.all", { count: changes.length })}
        </TextButton>
      )}
    </Part>
  );
}

function rowKey({ at, action }: RoleChange): string {
  return `${at} ${action}`;
}
