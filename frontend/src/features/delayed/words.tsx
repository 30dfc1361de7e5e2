import { Badge, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { isOpen, type Delayed, type State } from "@/features/delayed/queries";
import { Measured } from "@/ui/measure/Measured";
import { useOfNow } from "@/ui/measure/useNow";

const COLOURS: Readonly<Record<State, string>> = {
  pending: "blue",
  delivering: "cyan",
  refused: "orange",
  delivered: "teal",
  cancelled: "gray",
  moved: "gray",
  lost: "red",
};

/** What became of a message, in one word; what the word means on hover and focus. */
export function StateBadge({ state }: { state: string }) {
  const { t } = useTranslation("delayed");
  return (
    <Badge
      data-hint={t(`state_hint.${state as State}`)}
      variant="light"
      color={COLOURS[state as State]}
      tabIndex={0}
      data-state={state}
    >
      {t(`state.${state as State}`)}
    </Badge>
  );
}

/** How long a message that waits is past its due time; a dash for what is not, or does not wait any more. */
export function Overdue({ row }: { row: Pick<Delayed, "state" | "due_at"> }) {
  const { t } = useTranslation("delayed");
  const isWaiting = isOpen(row) || row.state === "delivering";
  const dueAt = Date.parse(row.due_at ?? "");
  // Whole seconds, and 0 until it is due: most rows are not drawn again each second.
  const late = useOfNow((now) => (now > dueAt ? Math.floor((now - dueAt) / 1000) : 0), isWaiting);
  if (!isWaiting || late === 0) return <Measured value={null} reason={t("not_overdue")} />;
  return (
    <Text span inherit c="orange">
      <Measured value={late} as="duration" />
    </Text>
  );
}
