import {
  Checkbox,
  NativeSelect,
  NumberInput,
  PasswordInput,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { teamNamesOptions } from "@/api/teams";
import { change } from "@/api/requests";
import {
  DEFAULT_MARKER_DAYS,
  draftOf,
  isComplete,
  isTested,
  needsPassword,
  NEW_DATABASE,
  PORTS,
  toChange,
  toDatabase,
  type DatabaseDraft,
} from "@/features/outbox/databaseDraft";
import { grantStatements, neededRights } from "@/features/outbox/grants";
import { changeDatabase, KINDS, outboxKey, TLS, type Database } from "@/features/outbox/queries";
import { Snippet } from "@/shared/Teach";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";

/**
 * Register a database, or change one. The preview tests the connection; what fails the test can be saved disabled. The
 * password can be written and never read: left empty it stays.
 */
export function DatabaseDialog({ row, onClose }: { row: Database | null; onClose: () => void }) {
  const { t } = useTranslation("outbox");
  // Of the row as it was when the form was opened: a change by someone else meanwhile is refused.
  const [before] = useState(row);
  const [draft, setDraft] = useState(() => (before ? draftOf(before) : NEW_DATABASE));
  const name = draft.name.trim();
  const wordOf = (field: string, value: unknown) => {
    if (field === "password") {
      return typeof value === "string" ? t("password.fingerprint", { value }) : t("password.none");
    }
    if (field === "kind" && typeof value === "string") return t(`kind.${value}`);
    if (field === "tls" && typeof value === "string") return t(`tls.${value}`);
    return undefined;
  };
  return (
    <ChangeDialog
      onClose={onClose}
      affects={name}
      title={before ? t("edit.title", { name: before.name }) : t("register.title")}
      means={isTested(draft, before) ? t("register.tested") : undefined}
      wordOf={wordOf}
      actionLabel={t(before ? "common:action.save" : "register.action")}
      doneMessage={t(before ? "edit.done" : "register.done", { name })}
      inputs={JSON.stringify(draft)}
      isReady={isComplete(draft, before)}
      run={(attempt) =>
        before
          ? changeDatabase(before, toChange(draft), attempt)
          : change("post", "/api/v1/outbox/databases/", attempt, { body: toDatabase(draft) })
      }
      refreshes={[outboxKey]}
    >
      <Fields draft={draft} row={before} set={(some) => setDraft({ ...draft, ...some })} />
    </ChangeDialog>
  );
}

function Fields({
  draft,
  row,
  set,
}: {
  draft: DatabaseDraft;
  row: Database | null;
  set: (some: Partial<DatabaseDraft>) => void;
}) {
  const { t } = useTranslation("outbox");
  const { data: teams = [] } = useQuery(teamNamesOptions());
  const fields = fieldsOf(draft, set, "NewOutboxDatabaseRequest");
  const isServer = draft.kind !== "sqlite";
  const isPasswordRequired = needsPassword(draft, row);
  const hasPassword = row?.has_password ?? false;
  return (
    <Stack gap="sm">
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <TextInput
          label={t("column.name")}
          description={t("hint.name")}
          required
          data-autofocus
          {...fields.text("name")}
        />
        <NativeSelect
          label={t("column.kind")}
          description={t("hint.kind")}
          disabled={row !== null}
          data={KINDS.map((value) => ({ value, label: t(`kind.${value}`) }))}
          {...fields.text("kind")}
        />
      </SimpleGrid>
      {isServer && (
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
          <TextInput
            label={t("field.host")}
            description={t("hint.host")}
            required
            autoComplete="off"
            {...fields.text("host")}
          />
          <NumberInput
            label={t("field.port")}
            description={t("hint.port")}
            placeholder={String(PORTS[draft.kind])}
            allowDecimal={false}
            {...fields.number("port")}
            min={1}
          />
        </SimpleGrid>
      )}
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <TextInput
          label={t(isServer ? "field.database" : "field.file")}
          description={t(isServer ? "hint.database" : "hint.file")}
          required
          autoComplete="off"
          {...fields.text("database")}
        />
        <TextInput
          label={t("field.table")}
          description={t("hint.table")}
          required
          autoComplete="off"
          {...fields.text("table")}
        />
      </SimpleGrid>
      {isServer && (
        <>
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
            <TextInput
              label={t("field.user")}
              description={t("hint.user")}
              autoComplete="off"
              {...fields.text("user")}
            />
            <PasswordInput
              label={t("field.password")}
              description={t(isPasswordRequired ? "password.again" : hasPassword ? "password.kept" : "password.hint")}
              required={isPasswordRequired}
              autoComplete="new-password"
              disabled={draft.dropsPassword}
              visibilityToggleButtonProps={{ "aria-label": t("password.show") }}
              {...fields.text("password")}
            />
          </SimpleGrid>
          {hasPassword && <Checkbox label={t("password.drop")} {...fields.checked("dropsPassword")} />}
          <NativeSelect
            label={t("field.tls")}
            data={TLS.map((value) => ({ value, label: t(`tls.${value}`) }))}
            {...fields.text("tls")}
          />
        </>
      )}
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <NumberInput
          label={t("field.rows_per_second_max")}
          description={t("hint.rows_per_second_max")}
          placeholder={t("no_limit")}
          allowDecimal={false}
          thousandSeparator=","
          {...fields.number("rowsPerSecondMax", "rows_per_second_max")}
        />
        <NumberInput
          label={t("field.age_hours_max")}
          description={t("hint.age_hours_max")}
          placeholder={t("no_limit")}
          allowDecimal={false}
          thousandSeparator=","
          {...fields.number("ageHoursMax", "age_hours_max")}
        />
        <TextInput
          label={t("field.marker_table")}
          description={t("hint.marker_table")}
          placeholder={t("none")}
          autoComplete="off"
          {...fields.text("markerTable", "marker_table")}
        />
        <NumberInput
          label={t("field.marker_days")}
          description={t("hint.marker_days")}
          placeholder={String(DEFAULT_MARKER_DAYS)}
          allowDecimal={false}
          thousandSeparator=","
          {...fields.number("markerDays", "marker_days")}
        />
      </SimpleGrid>
      <Select
        label={t("column.owner")}
        description={t("hint.owner")}
        placeholder={t("no_owner")}
        data={[...new Set([...teams, ...(draft.owner ? [draft.owner] : [])])]}
        searchable
        clearable
        value={draft.owner || null}
        onChange={(owner) => set({ owner: owner ?? "" })}
      />
      <Checkbox label={t("field.is_enabled")} description={t("hint.is_enabled")} {...fields.checked("isEnabled")} />
      <Preparation draft={draft} />
    </Stack>
  );
}

/** The tables and rights that the relay needs, as statements to run in the database. */
function Preparation({ draft }: { draft: DatabaseDraft }) {
  const { t } = useTranslation("outbox");
  const [table, markers] = [draft.table.trim(), draft.markerTable.trim()];
  const of = { ...draft, table, marker_table: markers };
  const grants = grantStatements(of, neededRights(of));
  return (
    <details>
      <summary>
        <Text span size="sm">
          {t("prepare.title")}
        </Text>
      </summary>
      <Stack gap="xs" mt="xs">
        <Text size="sm">{t("prepare.tables")}</Text>
        <Snippet
          code={[
            `qmq outbox ddl ${draft.kind} --table ${table}`,
            ...(markers ? [`qmq idempotent ddl ${draft.kind} --table ${markers}`] : []),
          ].join("\n")}
        />
        {grants && (
          <>
            <Text size="sm">{t("prepare.rights")}</Text>
            <Snippet code={grants} />
            {draft.kind === "mysql" && (
              <Text size="xs" c="dimmed">
                {t("grants.host")}
              </Text>
            )}
          </>
        )}
      </Stack>
    </details>
  );
}
