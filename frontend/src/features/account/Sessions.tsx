import { Badge, Button, Group, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { browserOf } from "@/features/account/browserOf";
import { endOtherSessions, endSession, loadSessions, sessionsKey, type Session } from "@/features/account/queries";
import { Section } from "@/features/account/Section";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/types";

/** Where one is signed in: one browser can be signed out, or all others. */
export function Sessions() {
  const { t } = useTranslation("account");
  const client = useQueryClient();
  const [ending, setEnding] = useState<Session | "others" | null>(null);
  const columns = useMemo<Column<Session>[]>(
    () => [
      {
        id: "browser",
        header: t("sessions.browser"),
        isFixed: true,
        cell: (row) => (
          <Group gap="xs" wrap="nowrap">
            <span title={row.user_agent}>{browserOf(row.user_agent)}</span>
            {row.is_this && (
              <Badge variant="light" tt="none">
                {t("sessions.this")}
              </Badge>
            )}
          </Group>
        ),
      },
      { id: "address", header: t("sessions.address"), sort: "address", cell: (row) => row.address || "—" },
      {
        id: "seen_at",
        header: t("sessions.seen_at"),
        sort: "seen_at",
        cell: (row) => <Instant at={row.seen_at} relative />,
      },
      {
        id: "started_at",
        header: t("sessions.started_at"),
        sort: "started_at",
        cell: (row) => <Instant at={row.started_at} />,
      },
      { id: "expires_at", header: t("sessions.expires_at"), cell: (row) => <Instant at={row.expires_at} relative /> },
      {
        id: "end",
        card: "action",
        header: t("sessions.action"),
        isFixed: true,
        cell: (row) =>
          row.is_this ? null : (
            <Button size="compact-sm" variant="default" onClick={() => setEnding(row)}>
              {t("sessions.end")}
            </Button>
          ),
      },
    ],
    [t],
  );
  return (
    <Section title={t("sessions.title")}>
      <Text size="sm" c="dimmed">
        {t("sessions.life")}
      </Text>
      <DataTable
        label={t("sessions.title")}
        queryKey={sessionsKey}
        load={loadSessions}
        columns={columns}
        rowKey={(row) => row.id}
        prefix="s_"
        actions={
          <Button size="sm" variant="default" onClick={() => setEnding("others")}>
            {t("sessions.end_others")}
          </Button>
        }
      />
      <ChangeDialog
        opened={ending !== null}
        onClose={() => setEnding(null)}
        title={ending === "others" ? t("sessions.end_others") : t("sessions.end_one")}
        run={({ dryRun }) =>
          ending === null || ending === "others" ? endOtherSessions(dryRun) : endSession(ending, dryRun)
        }
        actionLabel={t("sessions.end")}
        doneMessage={t("sessions.ended")}
        onDone={() => void client.invalidateQueries({ queryKey: sessionsKey })}
      />
    </Section>
  );
}
