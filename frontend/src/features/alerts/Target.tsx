import type { AlertKind } from "@/features/alerts/queries";
import { placeOf } from "@/features/alerts/place";
import { useLive } from "@/live/useLive";
import { LinkTo } from "@/ui/LinkTo";

/** What an alert is about, and the way to it. */
export function Target({ kind, target }: { kind: AlertKind; target: string }) {
  const { state } = useLive("/ws/nodes/");
  const place = placeOf(kind, target, state);
  if (!place) return <span className="break">{target}</span>;
  return (
    <LinkTo {...place} size="sm" className="break" display="inline-block" miw={160}>
      {target}
    </LinkTo>
  );
}
