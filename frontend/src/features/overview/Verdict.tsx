import { IconAlertTriangle, IconCircleCheck, IconFlame } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Item } from "@/features/overview/attention";
import type { Overview } from "@/features/overview/queries";

/** Whether all is well, in a sentence: how many alerts fire, and what else needs attention. */
export function Verdict({ items, firing }: { items: readonly Item[]; firing: Overview["alerts_firing"] }) {
  const { t } = useTranslation("overview");
  const critical = (firing.critical ?? 0) + items.filter(({ level }) => level === "critical").length;
  const warnings = (firing.warning ?? 0) + items.filter(({ level }) => level === "warning").length;
  const total = critical + warnings;
  const counts = [
    critical > 0 && t("verdict.critical", { count: critical }),
    warnings > 0 && t("verdict.warning", { count: warnings }),
  ].filter(Boolean);
  const [Sign, colour] =
    critical > 0 ? ([IconFlame, "red"] as const) : total > 0 ? ([IconAlertTriangle, "yellow"] as const) : OK;
  return (
    <div className="verdict" data-attention={total}>
      <Sign size={20} aria-hidden color={`var(--mantine-color-${colour}-6)`} />
      <span>{total > 0 ? t("verdict.needs", { counts: counts.join(t("verdict.and")) }) : t("verdict.well")}</span>
    </div>
  );
}

const OK = [IconCircleCheck, "teal"] as const;
