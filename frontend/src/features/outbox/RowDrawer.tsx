import { Alert, Button, Code, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { canChange, rowOptions, type Action, type Database } from "@/features/outbox/queries";
import { StatusBadge } from "@/features/outbox/RowList";
import { bytes, count } from "@/format/numbers";
import { AddressDrawer } from "@/ui/dialog/SideDrawer";
import { SubjectLink } from "@/ui/links/links";
import { Instant } from "@/ui/measure/Instant";
import { CopyIcon } from "@/ui/menu/CopyIcon";
import { Content, Facts, Tags } from "@/ui/message/MessageView";
import { loaded } from "@/ui/page/loaded";
import { useLanguage } from "@/ui/preferences";
import { Sent } from "@/ui/Sent";

interface Props {
  database: Database;
  onDo: (action: Action, row: string) => void;
}

/** The row that the address names by its ID, with its message, beside the list. */
export function RowDrawer(props: Props) {
  const { t } = useTranslation("outbox");
  return (
    <AddressDrawer name="row" size={760} title={t("rows.one")}>
      {(id) => <One {...props} id={id} />}
    </AddressDrawer>
  );
}

function One({ database, id, onDo }: Props & { id: string }) {
  const { t } = useTranslation("outbox");
  const language = useLanguage();
  const [row, instead] = loaded(useQuery(rowOptions(database.id, id)));
  if (!row) return instead;
  const isOpen = canChange(row);
  return (
    <Stack gap="md" data-outbox-row={row.id}>
      <Group gap="xs">
        <StatusBadge row={row} />
        <span className="grow" />
        {isOpen && database.may_resend && (
          <Button size="sm" onClick={() => onDo("resend", row.id)} data-action="resend">
            {t("resend.action")}
          </Button>
        )}
        {isOpen && database.may_discard && (
          <Button size="sm" variant="default" color="red" onClick={() => onDo("discard", row.id)} data-action="discard">
            {t("discard.action")}
          </Button>
        )}
      </Group>
      <Text size="sm">{t(`status_about.${row.status}`)}</Text>
      {row.last_error !== null && (
        <Alert color="red" title={t("column.last_error")}>
          <Text size="sm" className="break">
            <Sent text={row.last_error} />
          </Text>
        </Alert>
      )}
      <Facts
        rows={[
          [t("column.id"), row.id],
          [t("column.subject"), row.subject === null ? "—" : <SubjectLink key="subject" subject={row.subject} />],
          [
            t("column.message_id"),
            row.message_id === null ? (
              "—"
            ) : (
              <Group key="id" gap={2} wrap="nowrap" component="span">
                <span className="break">{row.message_id}</span>
                <CopyIcon value={row.message_id} what={t("column.message_id")} />
              </Group>
            ),
          ],
          [t("column.created_at"), <Instant key="created" at={row.created_at} />],
          [t("column.due_at"), row.due_at === null ? "—" : <Instant key="due" at={row.due_at} />],
          [t("column.failed_attempts"), count(row.failed_attempts, language)],
          [t("column.size"), bytes(row.size, language)],
          ...(row.deliver_at === null
            ? []
            : ([[t("rows.deliver_at"), <Instant key="deliver" at={row.deliver_at} />]] as const)),
          ...(row.tags.length === 0 ? [] : ([[t("rows.tags"), <Tags key="tags" tags={row.tags} />]] as const)),
        ]}
      />
      {row.withheld !== null && (
        <Alert color="gray" title={t("rows.withheld")}>
          <Sent text={row.withheld} />
        </Alert>
      )}
      {row.problem !== null && (
        <Alert color="red" title={t("rows.invalid")}>
          <Stack gap="xs">
            <Text size="sm" className="break">
              <Sent text={row.problem} />
            </Text>
            {row.content !== null && (
              <Code block tabIndex={0} className="message-body">
                {row.content}
              </Code>
            )}
          </Stack>
        </Alert>
      )}
      <Content
        properties={row.properties}
        isMasked={row.masked}
        maskedValues={row.masked_values}
        decoding={row.decoding}
      />
    </Stack>
  );
}
