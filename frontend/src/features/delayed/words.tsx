import { Badge, Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { isOpen, type Delayed, type State } from "@/features/delayed/queries";
import { Measured } from "@/ui/Measured";
import { useNow } from "@/ui/useNow";

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
    <Tooltip label={t(`state_hint.${state as State}`)} multiline maw={320}>
      <Badge variant="light" color={COLOURS[state as State]} tabIndex={0} data-state={state}>
        {t(`state.${state as State}`)}
      </Badge>
    </Tooltip>
  );
}

/** How long a message that waits is past its due time; a dash for what is not, or does not wait any more. */
export function Overdue({ row }: { row: Pick<Delayed, "state" | "due_at"> }) {
  const { t } = useTranslation("delayed");
  const isWaiting = isOpen(row) || row.state === "delivering";
  const late = (useNow(isWaiting) - Date.parse(row.due_at ?? "")) / 1000;
  if (!isWaiting || !(late > 0)) return <Measured value={null} reason={t("not_overdue")} />;
  return (
    <Text span inherit c="orange">
      <Measured value={Math.floor(late)} as="duration" />
    </Text>
  );
}
