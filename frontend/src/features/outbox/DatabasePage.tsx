import { Alert, Button, Group, Paper, Stack, Text } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { Counted, Leader, Oldest, Rate, StateBadge, useAddress, useErrorWords } from "@/features/outbox/Numbers";
import { databaseOptions, type Action, type Chosen, type Database } from "@/features/outbox/queries";
import { RowList } from "@/features/outbox/RowList";
import { count } from "@/format/numbers";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { TeamLink } from "@/ui/links/links";
import { useGoTo } from "@/ui/links/LinkTo";
import { usePathParams, useUrlState } from "@/ui/links/urlState";
import { Instant } from "@/ui/measure/Instant";
import { NumberStrip, StripNumber } from "@/ui/measure/NumberStrip";
import { MenuButton } from "@/ui/menu/MenuButton";
import { Facts } from "@/ui/message/MessageView";
import { ResourcePage } from "@/ui/page/ResourcePage";
import { useLanguage } from "@/ui/preferences";
import { Sent } from "@/ui/Sent";

const DatabaseDialog = whenDrawn(async () => (await import("@/features/outbox/DatabaseDialog")).DatabaseDialog);
const TestDialog = whenDrawn(async () => (await import("@/features/outbox/TestDialog")).TestDialog);
const SwitchDialog = whenDrawn(async () => (await import("@/features/outbox/Dialogs")).SwitchDialog);
const DeleteDialog = whenDrawn(async () => (await import("@/features/outbox/Dialogs")).DeleteDialog);
const RowsDialog = whenDrawn(async () => (await import("@/features/outbox/RowsDialog")).RowsDialog);

/** One registered database: its numbers, its settings, and its rows as they are now. */
export default function DatabasePage() {
  const { t } = useTranslation("outbox");
  const { database } = usePathParams("database");
  const [, change] = useUrlState();
  const [wanted, setWanted] = useState<{ action: Action; chosen: Chosen | "all" } | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  return (
    <ResourcePage
      query={useQuery(databaseOptions(database))}
      title={(row) => row?.name ?? t("one", { id: database })}
      crumb={{ label: t("common:nav.outbox"), to: "/outbox" }}
      header={(row) =>
        row && {
          badges: <StateBadge row={row} />,
          description: <Where row={row} />,
          actions: <Actions row={row} />,
        }
      }
    >
      {(row) => (
        <Stack gap="lg">
          <Trouble row={row} />
          <MarkerTrouble row={row} />
          <Numbers row={row} />
          <Settings row={row} />
          <RowList
            row={row}
            selected={selected}
            onSelect={setSelected}
            onDo={(action, chosen) => setWanted({ action, chosen })}
          />
          {wanted && (
            <RowsDialog
              row={row}
              {...wanted}
              onStarted={() => {
                setSelected(new Set());
                // A row that is gone can't be shown.
                if (wanted.action === "discard") change({ row: undefined });
              }}
              onClose={() => setWanted(null)}
            />
          )}
        </Stack>
      )}
    </ResourcePage>
  );
}

function Where({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const addressOf = useAddress();
  return (
    <>
      {t(`kind.${row.kind}`)} · <span className="break">{addressOf(row)}</span>
      {row.owner && (
        <>
          {" · "}
          {t("column.owner")} <TeamLink team={row.owner} />
        </>
      )}
    </>
  );
}

function Actions({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const may = useMay();
  const goTo = useGoTo();
  const [open, setOpen] = useState<"edit" | "switch" | "delete" | "test" | null>(null);
  if (!may("change_cluster")) return null;
  const shared = { row, onClose: () => setOpen(null) };
  return (
    <>
      <Button variant="default" onClick={() => setOpen("test")} data-action="test-connection">
        {t("test.action")}
      </Button>
      <Button variant="default" onClick={() => setOpen("edit")} data-action="edit">
        {t("common:action.edit")}
      </Button>
      <MenuButton
        variant="default"
        label={t("actions_of", { name: row.name })}
        icon={<IconDots size={16} aria-hidden />}
        entries={[
          { label: t(row.is_enabled ? "disable.action" : "enable.action"), onClick: () => setOpen("switch") },
          { label: t("common:action.delete"), color: "red", onClick: () => setOpen("delete") },
        ]}
      />
      {open === "edit" && <DatabaseDialog {...shared} />}
      {open === "test" && <TestDialog {...shared} />}
      {open === "switch" && <SwitchDialog {...shared} />}
      {open === "delete" && <DeleteDialog {...shared} onDone={() => void goTo({ to: "/outbox" })} />}
    </>
  );
}

/** Why the relay can't use the database now. */
function Trouble({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const words = useErrorWords();
  if (row.error_code === null) return null;
  return (
    <Alert color="red" title={t("trouble")} data-error-code={row.error_code}>
      <Text size="sm" className="break">
        {row.error ? <Sent text={row.error} /> : words(row.error_code)}
      </Text>
      <Text size="xs" c="dimmed">
        {t("error_since")} <Instant at={row.error_since} /> · {row.error_code}
      </Text>
    </Alert>
  );
}

/** Why old markers can't be deleted. Rows are relayed all the same. */
function MarkerTrouble({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const words = useErrorWords();
  if (row.marker_error_code === null) return null;
  return (
    <Alert color="orange" title={t("marker.trouble")} data-marker-error={row.marker_error_code}>
      <Text size="sm" className="break">
        {row.marker_error ?? words(row.marker_error_code)}
      </Text>
      <Text size="xs" c="dimmed">
        {t("marker.tried_at")} <Instant at={row.marker_cleanup_at} /> · {row.marker_error_code}
      </Text>
    </Alert>
  );
}

function Numbers({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const tile = (name: string, value: ReactNode) => (
    <StripNumber label={t(`column.${name}`)} hint={t(`meaning.${name}`)}>
      {value}
    </StripNumber>
  );
  return (
    <Stack gap="xs">
      <NumberStrip>
        {tile("pending", <Counted row={row} of="pending" />)}
        {tile("oldest", <Oldest row={row} />)}
        {tile("failed", <Counted row={row} of="failed" />)}
        {tile("rate", <Rate row={row} />)}
      </NumberStrip>
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          {t("column.measured_at")} <Instant at={row.measured_at} relative />
        </Text>
        <Text size="sm" c="dimmed">
          {t("column.leader")}: <Leader row={row} />
        </Text>
      </Group>
    </Stack>
  );
}

function Settings({ row }: { row: Database }) {
  const { t } = useTranslation("outbox");
  const language = useLanguage();
  const limit = (value: number | null) => (value === null ? t("no_limit") : count(value, language));
  return (
    <details>
      <summary>
        <Text span size="sm">
          {t("settings")}
        </Text>
      </summary>
      <Paper withBorder p="sm" mt="xs">
        <Facts
          rows={[
            [t("field.table"), row.table],
            ...(row.kind === "sqlite"
              ? []
              : ([
                  [t("field.user"), row.user === null ? t("for_administrators") : row.user || "—"],
                  [t("field.password"), t(row.has_password ? "password.set" : "password.none")],
                  [t("field.tls"), t(`tls.${row.tls}`)],
                ] as const)),
            [t("field.rows_per_second_max"), limit(row.rows_per_second_max)],
            [t("field.age_hours_max"), limit(row.age_hours_max)],
            [t("field.marker_table"), row.marker_table || t("none")],
            ...(row.marker_table
              ? ([
                  [t("field.marker_days"), count(row.marker_days, language)],
                  [t("marker.cleanup_at"), <Instant key="at" at={row.marker_cleanup_at} />],
                ] as const)
              : []),
          ]}
        />
      </Paper>
    </details>
  );
}
