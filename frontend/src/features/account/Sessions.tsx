import { Badge, Button, Group, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change, list } from "@/api/requests";
import { browserOf } from "@/features/account/browserOf";
import { sessionsKey, type Session } from "@/features/account/queries";
import { Section } from "@/features/account/Section";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns } from "@/ui/table/define";

/** Where one is signed in: one browser can be signed out, or all others. */
export function Sessions() {
  const { t } = useTranslation("account");
  const [ending, setEnding] = useState<Session | "others" | null>(null);
  const columns = useMemo(
    () =>
      defineColumns<Session>(
        (id) => t(`sessions.${id}`),
        (column) => [
          column("browser", { isFixed: true }, (row) => (
            <Group gap="xs" wrap="nowrap">
              <span title={row.user_agent}>{browserOf(row.user_agent)}</span>
              {row.is_this && (
                <Badge variant="light" tt="none">
                  {t("sessions.this")}
                </Badge>
              )}
            </Group>
          )),
          column("address", { sort: true }, (row) => row.address || "—"),
          column("seen_at", { sort: true }, (row) => <Instant at={row.seen_at} relative />),
          column("started_at", { sort: true }, (row) => <Instant at={row.started_at} />),
          column("expires_at", (row) => <Instant at={row.expires_at} relative />),
          column("end", { card: "action", header: t("sessions.action"), isFixed: true }, (row) =>
            row.is_this ? null : (
              <Button size="compact-sm" variant="default" onClick={() => setEnding(row)}>
                {t("sessions.end")}
              </Button>
            ),
          ),
        ],
      ),
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
        load={list("/api/v1/me/sessions/")}
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
        run={(attempt) =>
          // "others": everywhere but here.
          ending === null || ending === "others"
            ? change("delete", "/api/v1/me/sessions/", attempt, { query: { keep_this: true } })
            : change("delete", "/api/v1/me/sessions/{session_id}/", attempt, {
                path: { session_id: Number(ending.id) },
              })
        }
        actionLabel={t("sessions.end")}
        doneMessage={t("sessions.ended")}
        refreshes={[sessionsKey]}
      />
    </Section>
  );
}
