import { useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";

/**
 * The alert rules that every system begins with, as the server names them. One that was renamed keeps its name in each
 * language.
 */
export const BUILTIN: Readonly<Record<string, string>> = {
  "Broker group offline": "group_offline",
  "Fewer copies than configured": "copies",
  "Fewer in-sync members than the minimum": "below_minimum",
  "No member could replace the master": "no_candidate",
  "All copies on one rack": "one_rack",
  "More than 3 role changes in an hour": "role_changes",
  "Replication alarm": "replication",
  "Disk usage above 85%": "disk",
  "Disk may be full within a day": "disk_in_a_day",
  "Disk does not complete writes": "disk_stuck",
  "Corrupted messages": "damage",
  "Stored data not read again within 7 days": "scrub",
  "Consumer group 15 minutes behind": "time_lag",
  "New dead letters": "dead_letters",
  "Duplicate consumer IDs": "duplicate_ids",
  "Delayed messages more than 5 seconds late": "lateness",
  "Wrong clock on a delay node": "clock",
  "Background job overdue": "job_late",
  "Outbox more than 5 minutes behind": "outbox_age",
  "Outbox rows wait for an operator": "outbox_failed",
  "Outbox database failing": "outbox_unreachable",
  "No measurements for a minute": "unknown",
};

/** A rule's name in the viewer's language, where it is a built-in one. */
export function useRuleName(): (name: string) => string {
  const { t } = useTranslation("alerts");
  return useCallback(
    (name) => {
      const key = BUILTIN[name];
      return key === undefined ? name : t(`rule_name.${key}`);
    },
    [t],
  );
}
