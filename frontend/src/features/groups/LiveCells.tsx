import type { GroupLag } from "@/features/groups/queries";
import { StateBadge } from "@/features/groups/StateBadge";
import type { Entry } from "@/live/applyDelta";
import { groupKey, lagPath, measured, useLiveEntry } from "@/live/useLive";
import { DrainTime } from "@/features/groups/DrainTime";
import { Measured, type Format } from "@/ui/Measured";

/** A row's live numbers; until the feed has them, those that the list came with. Only cells whose numbers changed are drawn again. */
function useNumbers(row: GroupLag): Entry {
  return useLiveEntry(lagPath(), "groups", groupKey(row.subject, row.group)) ?? row;
}

export function LiveNumber({ row, field, as }: { row: GroupLag; field: keyof GroupLag; as: Format }) {
  return <Measured {...measured(useNumbers(row), field)} as={as} />;
}

export function LiveState({ row }: { row: GroupLag }) {
  return <StateBadge numbers={useNumbers(row)} />;
}

export function LiveDrainTime({ row }: { row: GroupLag }) {
  return <DrainTime numbers={useNumbers(row)} />;
}
