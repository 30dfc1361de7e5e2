import { Group, Stack, Text, TextInput } from "@mantine/core";
import { IconArrowRight } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  changeMessage,
  delayedKey,
  orTooLate,
  type Changed,
  type Delayed,
  type Operation,
} from "@/features/delayed/queries";
import { StateBadge } from "@/features/delayed/words";
import { fromField, toField, utc, zoneName } from "@/format/times";
import { PlanDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";
import { useZone } from "@/ui/preferences";

/** Cancel a message, deliver it now, or give it another due time. */
export function ChangeMessage({
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
  const [field, setField] = useState(() => (message.due_at ? toField(message.due_at, zone) : ""));
  const to = fromField(field, zone);
  const isMove = operation === "reschedule";
  // Also after a refusal: it was too late because something had changed.
  const refresh = () => void client.invalidateQueries({ queryKey: delayedKey });
  return (
    <PlanDialog<Changed>
      onClose={onClose}
      title={t(`change.${operation}.title`, { id: message.message_id })}
      actionLabel={t(`change.${operation}.do`)}
      doneMessage={t(`change.${operation}.done`, { id: message.message_id })}
      run={async (attempt) => {
        try {
          return await orTooLate(changeMessage(operation, message, attempt, to ?? undefined), t);
        } catch (error) {
          refresh();
          throw error;
        }
      }}
      onDone={refresh}
      inputs={isMove ? field : ""}
      isReady={!isMove || to !== null}
      show={(plan) => (
        <Stack gap="xs">
          <Text size="sm">{t(`change.${operation}.what`)}</Text>
          {plan.state_before !== plan.state && (
            <Group gap="xs">
              <StateBadge state={plan.state_before} />
              <IconArrowRight size={16} aria-label={t("change.to")} />
              <StateBadge state={plan.state} />
            </Group>
          )}
          {isMove && (
            <Text size="sm">
              {t("column.due_at")}: <Instant at={message.due_at} />{" "}
              <IconArrowRight size={14} aria-label={t("change.to")} />{" "}
              <b>
                <Instant at={plan.due_at} />
              </b>{" "}
              (<Instant at={plan.due_at} relative />)
            </Text>
          )}
        </Stack>
      )}
    >
      {isMove && (
        <TextInput
          type="datetime-local"
          step={1}
          required
          label={t("change.reschedule.field", { zone: zoneName(zone) })}
          description={to === null ? t("change.reschedule.field_needed") : utc(to)}
          value={field}
          onChange={(event) => setField(event.currentTarget.value)}
          data-field="due_at"
        />
      )}
    </PlanDialog>
  );
}
