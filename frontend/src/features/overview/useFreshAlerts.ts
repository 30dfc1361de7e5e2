import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { alertsKey } from "@/api/alerts";
import { eventsKey } from "@/api/events";
import { overviewKey } from "@/features/overview/queries";
import type { LiveState } from "@/live/applyDelta";

/** Reads alerts, events and counts again once the live state says that an alert has fired or was resolved. */
export function useFreshAlerts(live: LiveState): void {
  const client = useQueryClient();
  const changedAt = live.alerts?.firing?.changed_at;
  const shown = useRef(changedAt);
  useEffect(() => {
    if (changedAt === undefined || changedAt === shown.current) return;
    const isFirst = shown.current === undefined;
    shown.current = changedAt;
    if (isFirst) return;
    for (const queryKey of [alertsKey, eventsKey, overviewKey]) void client.invalidateQueries({ queryKey });
  }, [client, changedAt]);
}
