import { Code, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { diff } from "@/features/audit/diff";
import type { AuditEntry } from "@/features/audit/queries";
import { FactTable, type Fact } from "@/ui/FactTable";
import { Instant } from "@/ui/Instant";
import { SideDrawer } from "@/ui/SideDrawer";

/** One entry whole: who, when, from where, and each field that changed. */
export function EntryDrawer({ entry, onClose }: { entry: AuditEntry | null; onClose: () => void }) {
  return (
    <SideDrawer opened={entry !== null} onClose={onClose} title={entry?.action}>
      {entry && <Entry entry={entry} />}
    </SideDrawer>
  );
}

function Entry({ entry }: { entry: AuditEntry }) {
  const { t } = useTranslation("audit");
  const changes = diff(entry.before, entry.after);
  const facts: Fact[] = [
    [t("column.at"), <Instant key="at" at={entry.at} withMillis />],
    [t("column.actor"), entry.actor],
    [t("column.target"), entry.target],
    [t("column.reason"), entry.reason || "—"],
    [t("column.address"), entry.address || "—"],
    [t("column.request"), entry.request_id || "—"],
    [t("column.client_request"), entry.client_request_id ?? "—"],
    [t("column.digest"), entry.digest],
  ];
  return (
    <Stack>
      <FactTable facts={facts} />
      <Text fw={600} component="h3">
        {t("changes")}
      </Text>
      {changes.length === 0 ? (
        <Text c="dimmed">{t("no_changes")}</Text>
      ) : (
        <Table withTableBorder>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("field")}</Table.Th>
              <Table.Th>{t("before")}</Table.Th>
              <Table.Th>{t("after")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {changes.map(({ name, before, after }) => (
              <Table.Tr key={name}>
                <Table.Th scope="row">{name}</Table.Th>
                <Table.Td className="break">{before === null ? "—" : <Code>{before}</Code>}</Table.Td>
                <Table.Td className="break">{after === null ? "—" : <Code>{after}</Code>}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Stack>
  );
}
