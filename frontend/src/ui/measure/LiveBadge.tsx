import { Badge } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { dateTime } from "@/format/times";
import type { LiveView } from "@/live/feed";
import { useLive } from "@/live/useLive";
import { useZone } from "@/ui/preferences";
import { useSentence } from "@/i18n/useSentence";

const COLOURS = { connecting: "gray", live: "teal", stale: "yellow", reconnecting: "orange", refused: "red" } as const;

/** Whether the numbers beside it are live, and if not, since when they are old and why. */
export function LiveBadge({ view }: { view: Pick<LiveView, "status" | "at"> }) {
  const { t } = useTranslation();
  const zone = useZone();
  const sentence = useSentence();
  const { status, at } = view;
  const since = "since" in status ? dateTime(status.since, zone) : "";
  const reason = "reason" in status ? sentence(status.reason) : "";
  const measuredAt = at ? t("live.measured_at", { at: dateTime(at, zone) }) : t("live.nothing_yet");
  return (
    <Badge
      data-hint={[reason, measuredAt].filter(Boolean).join(" · ")}
      variant="light"
      color={COLOURS[status.kind]}
      role="status"
      data-live={status.kind}
      tabIndex={0}
      leftSection={<span className={`dot dot-${status.kind}`} aria-hidden />}
    >
      {t(`live.${status.kind}`, { since })}
    </Badge>
  );
}

/** The same of an address. It is drawn again each second, and what it stands beside is not. */
export function LiveBadgeOf({ path }: { path: string }) {
  return <LiveBadge view={useLive(path)} />;
}
