import { Alert, List, NativeSelect, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import {
  changeRows,
  outboxKey,
  STATUSES,
  type Action,
  type Chosen,
  type Database,
  type RowsChanged,
  type Status,
} from "@/features/outbox/queries";
import { PreviewedWork } from "@/shared/PreviewedWork";
import { count } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";

interface Props {
  row: Database;
  action: Action;
  /** "all": of a status that the dialog asks for. */
  chosen: Chosen | "all";
  onStarted: () => void;
  onClose: () => void;
}

/** Resend or discard rows: the count of a dry run first, then the change, in several requests where there are many. */
export function RowsDialog({ row, action, chosen: given, onStarted, onClose }: Props) {
  const { t } = useTranslation("outbox");
  // What the user chose stays the same while the page is refreshed: the database as it was read, the rows as selected.
  const [database] = useState(row);
  const [chosenRows] = useState(given);
  const [status, setStatus] = useState<Status>("refused");
  const isAll = chosenRows === "all";
  const chosen: Chosen = isAll ? { status } : chosenRows;
  const isDangerous = isAll || action === "discard";
  return (
    <PreviewedWork<RowsChanged, Chosen & { expected?: number }, RowsChanged>
      title={
        "ids" in chosen
          ? t(`${action}.title`, { count: chosen.ids.length })
          : t(`${action}.title_all`, { name: row.name })
      }
      confirmName={isDangerous ? database.name : undefined}
      actionLabel={t(`${action}.action`)}
      doneMessage={t(`${action}.started`)}
      inputs={status}
      isWorthIt={({ matched }) => matched > 0}
      preview={() => changeRows(database, action, chosen, { dryRun: true, reason: "" })}
      show={(found) => <Preview found={found} action={action} row={database} />}
      itemsOf={(found) => piecesOf(chosen, found)}
      one={(piece, reason, signal) => changeRows(database, action, piece, { dryRun: false, reason }, signal)}
      result={(done) => <Result done={done} action={action} />}
      refreshes={[outboxKey]}
      onStarted={onStarted}
      onClose={onClose}
    >
      {isAll && (
        <NativeSelect
          label={t("rows.which")}
          description={t(`status_about.${status}`)}
          data={STATUSES.map((value) => ({ value, label: t(`status.${value}`) }))}
          value={status}
          onChange={(event) => setStatus(event.currentTarget.value as Status)}
          data-field="status"
        />
      )}
    </PreviewedWork>
  );
}

/** One request for each part that the API changes at once. */
export function piecesOf(chosen: Chosen, found: RowsChanged): (Chosen & { expected?: number })[] {
  if ("ids" in chosen) return [chosen];
  const requests = Math.ceil(found.matched / Math.max(1, found.done));
  return Array.from({ length: requests }, () => ({ ...chosen, expected: found.matched }));
}

function Preview({ found, action, row }: { found: RowsChanged; action: Action; row: Database }) {
  const { t } = useTranslation("outbox");
  const language = useLanguage();
  const shown = count(found.matched, language);
  return (
    <List size="sm" data-matched={found.matched}>
      <List.Item>{t(`${action}.will`, { count: found.matched, shown })}</List.Item>
      {found.matched > 0 && <List.Item>{t(`${action}.means`)}</List.Item>}
      {!found.is_matched_exact && <List.Item>{t("rows.more", { shown })}</List.Item>}
      {found.not_found > 0 && (
        <List.Item data-not-found={found.not_found}>
          {t("rows.not_found", { count: found.not_found, shown: count(found.not_found, language) })}
        </List.Item>
      )}
      {action === "resend" && !row.is_enabled && <List.Item>{t("resend.disabled")}</List.Item>}
    </List>
  );
}

function Result({ done, action }: { done: readonly RowsChanged[]; action: Action }) {
  const { t } = useTranslation("outbox");
  const language = useLanguage();
  const sum = (of: "done" | "not_found") => done.reduce((total, one) => total + one[of], 0);
  const left = done.at(-1)?.left ?? 0;
  if (done.length === 0) return null;
  return (
    <Alert color={left > 0 ? "yellow" : "teal"} data-done={sum("done")}>
      <Stack gap={4}>
        <Text size="sm" fw={600}>
          {t(`${action}.did`, { count: sum("done"), shown: count(sum("done"), language) })}
        </Text>
        {sum("not_found") > 0 && (
          <Text size="sm">
            {t("rows.not_found", { count: sum("not_found"), shown: count(sum("not_found"), language) })}
          </Text>
        )}
        {left > 0 && <Text size="sm">{t("rows.left", { count: left, shown: count(left, language) })}</Text>}
      </Stack>
    </Alert>
  );
}
