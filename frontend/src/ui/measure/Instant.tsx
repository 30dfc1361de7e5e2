import { useTranslation } from "@/i18n/useTranslation";
import * as times from "@/format/times";
import { useLanguage, useZone } from "@/ui/preferences";
import { useOfNow } from "@/ui/measure/useNow";

/** An instant in the viewer's zone, UTC on hover and focus; `relative` shows "3 minutes ago" and keeps it true. */
export function Instant({
  at,
  relative = false,
  withMillis = false,
}: {
  at: string | null | undefined;
  relative?: boolean;
  withMillis?: boolean;
}) {
  const { t } = useTranslation();
  const language = useLanguage();
  const zone = useZone();
  const ago = useOfNow((now) => (relative && at ? times.relative(at, now, language) : null), relative);
  if (!at) {
    return (
      <span className="unknown">
        —<span className="sr-only">{t("unknown.never")}</span>
      </span>
    );
  }
  const exact = times.dateTime(at, zone, withMillis);
  return (
    <time dateTime={at} className="nowrap" data-hint={`${relative ? `${exact} · ` : ""}${times.utc(at)}`}>
      {ago ?? exact}
    </time>
  );
}
