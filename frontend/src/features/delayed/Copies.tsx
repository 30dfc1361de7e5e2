import { Button, Group, Stack, Text } from "@mantine/core";
import { IconArrowRight } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import {
  changeMessage,
  delayedKey,
  isOpen,
  messageOptions,
  orTooLate,
  type Changed,
  type Delayed,
  type Operation,
} from "@/features/delayed/queries";
import { Overdue, StateBadge } from "@/features/delayed/words";
import { utc, zoneName } from "@/format/times";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { InstantInput } from "@/ui/dates/InstantInput";
import { FactTable, type Fact } from "@/ui/page/FactTable";
import { Instant } from "@/ui/measure/Instant";
import { Content } from "@/ui/message/MessageView";
import { SubjectLink } from "@/ui/links/links";
import { loaded, Loading } from "@/ui/page/loaded";
import { Measured } from "@/ui/measure/Measured";
import { useZone } from "@/ui/preferences";
import { DialogFooter } from "@/ui/dialog/Dialog";
import { Unreachable } from "@/ui/measure/Unreachable";

/** What is known of one message, and what can be done with the copy that still waits. */
export function Copies({ messageId, subject }: { messageId: string; subject: string }) {
  const { t } = useTranslation("delayed");
  const [data, instead] = loaded(useQuery(messageOptions(messageId, subject)), <Loading label={t("detail.loading")} />);
  const [changing, setChanging] = useState<{ operation: Operation; row: Delayed } | null>(null);
  if (!data) return instead;
  // What still waits comes first: it is what one can act on.
  const copies = [...data.results].sort((a, b) => Number(isOpen(b)) - Number(isOpen(a)));
  const [first] = copies;
  return (
    <Stack>
      <Unreachable of={data.unreachable} />
      {copies.map((row, n) => (
        <section key={`${row.delay_group} ${row.due_at ?? ""} ${n}`} data-copy={row.state}>
          <Copy row={row} />
          {n > 0 && isOpen(row) && <Operations row={row} onChange={(operation) => setChanging({ operation, row })} />}
        </section>
      ))}
      {first && isOpen(first) && (
        <DialogFooter>
          <Operations row={first} onChange={(operation) => setChanging({ operation, row: first })} />
        </DialogFooter>
      )}
      {changing && (
        <ChangeMessage operation={changing.operation} message={changing.row} onClose={() => setChanging(null)} />
      )}
    </Stack>
  );
}

const OPERATIONS = [
  ["reschedule", { variant: "default" }],
  ["deliver", { variant: "default" }],
  ["cancel", { variant: "light", color: "red" }],
] as const;

/** What can be done with a message that still waits. */
function Operations({ row, onChange }: { row: Delayed; onChange: (operation: Operation) => void }) {
  const { t } = useTranslation("delayed");
  if (!row.may_change) {
    return (
      <Text size="sm" c="dimmed">
        {t("detail.may_not")}
      </Text>
    );
  }
  return (
    <Group gap="xs">
      {OPERATIONS.map(([operation, look]) => (
        <Button key={operation} {...look} onClick={() => onChange(operation)} data-action={operation}>
          {t(`change.${operation}.open`)}
        </Button>
      ))}
    </Group>
  );
}

function Copy({ row }: { row: Delayed }) {
  const { t } = useTranslation("delayed");
  const facts: Fact[] = [
    [t("column.state"), <StateBadge key="state" state={row.state} />],
    [
      t("column.due_at"),
      <span key="due">
        <Instant at={row.due_at} withMillis /> (<Instant at={row.due_at} relative />)
      </span>,
    ],
    [t("column.overdue"), <Overdue key="overdue" row={row} />],
    [t("column.subject"), <SubjectLink key="subject" subject={row.subject} />],
    [t("column.created_at"), <Instant key="created" at={row.created_at} withMillis />],
    [t("column.delay_group"), row.delay_group],
    [t("column.tags"), row.tags.join(", ") || "—"],
    [t("column.size"), <Measured key="size" value={row.size} as="bytes" />],
  ];
  return (
    <Stack gap="xs">
      <FactTable facts={facts} />
      <Content
        properties={row.properties}
        isMasked={row.masked}
        maskedValues={row.masked_values}
        decoding={row.decoding}
      />
    </Stack>
  );
}

/** Cancel a message, deliver it now, or give it another due time. */
function ChangeMessage({
  operation,
  message,
  onClose,
}: {
  operation: Operation;
  message: Delayed;
  onClose: () => void;
}) {
  const { t } = useTranslation("delayed");
  const zone = useZone();
  const client = useQueryClient();
  const [to, setTo] = useState(message.due_at);
  const isMove = operation === "reschedule";
  // Also after a refusal: it was too late because something had changed.
  const refresh = () => void client.invalidateQueries({ queryKey: delayedKey });
  return (
    <PreviewDialog<Changed>
      onClose={onClose}
      title={t(`change.${operation}.title`, { id: message.message_id })}
      actionLabel={t(`change.${operation}.do`)}
      doneMessage={t(`change.${operation}.done`, { id: message.message_id })}
      run={async (attempt) => {
        try {
          return await orTooLate(changeMessage(operation, message, attempt, to ?? undefined));
        } catch (error) {
          refresh();
          throw error;
        }
      }}
      onDone={refresh}
      inputs={(isMove && to) || ""}
      isReady={!isMove || to !== null}
      show={(preview) => (
        <Stack gap="xs">
          <Text size="sm">{t(`change.${operation}.what`)}</Text>
          {preview.state_before !== preview.state && (
            <Group gap="xs">
              <StateBadge state={preview.state_before} />
              <IconArrowRight size={16} aria-label={t("change.to")} />
              <StateBadge state={preview.state} />
            </Group>
          )}
          {isMove && (
            <Text size="sm">
              {t("column.due_at")} <Instant at={message.due_at} />{" "}
              <IconArrowRight size={14} aria-label={t("change.to")} />{" "}
              <b>
                <Instant at={preview.due_at} />
              </b>{" "}
              (<Instant at={preview.due_at} relative />)
            </Text>
          )}
        </Stack>
      )}
    >
      {isMove && (
        <InstantInput
          direction="future"
          required
          label={t("change.reschedule.field", { zone: zoneName(zone) })}
          description={to === null ? t("change.reschedule.field_needed") : utc(to)}
          value={to}
          onChange={setTo}
          data-field="due_at"
        />
      )}
    </PreviewDialog>
  );
}
