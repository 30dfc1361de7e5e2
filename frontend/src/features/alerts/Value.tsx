import { useTranslation } from "react-i18next";
import type { Alert } from "@/features/alerts/queries";
import { conditionText, isWord, valueText } from "@/features/alerts/words";
import { Measured } from "@/ui/Measured";
import { useLanguage } from "@/ui/preferences";

/** The newest value of an open alert, or the one that an ended alert fired with, beside what it may be at most. */
export function Value({ alert }: { alert: Alert }) {
  const { t } = useTranslation("alerts");
  const language = useLanguage();
  const value = alert.state === "resolved" ? alert.value : alert.last_value;
  const condition = conditionText(alert.kind, alert.threshold, language, t);
  if (value === null) return <Measured value={null} reason={alert.reason} />;
  const text = valueText(alert.kind, value, language, t);
  if (isWord(alert.kind)) return <>{text}</>;
  return (
    <span className="nowrap">
      <b>{text}</b> ({condition})
    </span>
  );
}
