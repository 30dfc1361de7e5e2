import { useTranslation } from "@/i18n/useTranslation";
import type { FlowPlace } from "@/features/overview/queries";
import { columnOf } from "@/features/overview/flow/places";
import * as numbers from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";

/** The name of a place of the picture, and its description. */
export function usePlaceText(): { name: (place: FlowPlace) => string; detail: (place: FlowPlace) => string } {
  const { t } = useTranslation("overview");
  const language = useLanguage();
  const name = (place: FlowPlace) => {
    if (place.kind === "others") return t(`flow.others_${columnOf(place)}`, { count: place.count });
    if (place.kind === "delay_nodes" || place.kind === "unnamed") return t(`flow.${place.kind}`);
    return place.name;
  };
  const detail = (place: FlowPlace) => {
    const rate = t("flow.rate", { rate: numbers.rate(place.rate, language) });
    if (columnOf(place) !== "groups") return rate;
    const lag =
      place.lag === null ? t("flow.lag_unknown") : t("flow.lag", { lag: numbers.compact(place.lag, language) });
    return place.state ? `${rate} · ${lag} · ${t(`flow.state.${place.state}`)}` : `${rate} · ${lag}`;
  };
  return { name, detail };
}
