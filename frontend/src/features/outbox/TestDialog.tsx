import { Alert, Button, List, Loader, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change, NOW } from "@/api/requests";
import { grantStatements } from "@/features/outbox/grants";
import type { Database, TestResult } from "@/features/outbox/queries";
import { Snippet } from "@/shared/Teach";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Sent } from "@/ui/Sent";

/** Tests the connection to a database, its tables and the rights of its user; shows the statements that help. */
export function TestDialog({ row, onClose }: { row: Database; onClose: () => void }) {
  const { t } = useTranslation("outbox");
  const test = useMutation({
    mutationFn: () => change("post", "/api/v1/outbox/databases/{database}/test/", NOW, { path: { database: row.id } }),
  });
  const { mutate: start } = test;
  useEffect(() => start(), [start]);
  return (
    <Dialog opened onClose={onClose} size="lg" title={t("test.title", { name: row.name })}>
      <Stack>
        <Text size="sm">{t("test.about")}</Text>
        <div aria-live="polite">
          {test.isPending && <Loader size="sm" aria-label={t("test.running")} />}
          {test.isError && <ProblemAlert error={test.error} />}
          {test.data && <Outcome row={row} found={test.data} />}
        </div>
        <DialogFooter>
          <Button variant="default" onClick={onClose}>
            {t("common:action.close")}
          </Button>
          <Button loading={test.isPending} onClick={() => test.mutate()} data-action="test">
            {t("test.again")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}

function Outcome({ row, found }: { row: Database; found: TestResult }) {
  const { t } = useTranslation("outbox");
  const of = { ...row, database: row.database ?? "", user: row.user ?? "" };
  const isLacking = found.missing_rights.length > 0;
  const grants = grantStatements(of, found.missing_rights);
  return (
    <Stack gap="sm">
      <Alert
        color={found.is_usable ? "teal" : "red"}
        title={t(found.is_usable ? "test.usable" : "test.unusable")}
        data-usable={found.is_usable}
      >
        {!found.is_usable && (
          <Text size="sm" className="break">
            {isLacking ? t("test.lacks", { user: of.user }) : <Sent text={found.detail} />}
          </Text>
        )}
        {isLacking && (
          <List size="sm" mt={4} data-missing-rights="">
            {found.missing_rights.map(({ table, right }) => (
              <List.Item key={`${table} ${right}`}>{t("test.missing", { table, right })}</List.Item>
            ))}
          </List>
        )}
        {found.code && (
          <Text size="xs" c="dimmed">
            {found.code}
          </Text>
        )}
      </Alert>
      {grants && (
        <>
          <Text size="sm">{t("grants.run", { database: of.database })}</Text>
          <Snippet code={grants} />
          {row.kind === "mysql" && (
            <Text size="xs" c="dimmed">
              {t("grants.host")}
            </Text>
          )}
        </>
      )}
    </Stack>
  );
}
