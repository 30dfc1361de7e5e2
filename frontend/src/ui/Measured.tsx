import { Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import { useLanguage } from "@/ui/preferences";

const FORMATS = {
  count: numbers.count,
  compact: numbers.compact,
  rate: numbers.rate,
  bytes: numbers.bytes,
  percent: numbers.percent,
  duration: times.duration,
} as const;

export type Format = keyof typeof FORMATS;

/**
 * A number that was measured, or a dash with the reason why it could not be. Never zero for unknown.
 * `unknown` replaces the dash where null has a meaning of its own ("never").
 */
export function Measured({
  value,
  as = "count",
  reason,
  unknown,
}: {
  value: number | null | undefined;
  as?: Format;
  reason?: string | null;
  unknown?: string;
}) {
  const { t } = useTranslation();
  const language = useLanguage();
  if (value === null || value === undefined) {
    return (
      <Tooltip label={reason ?? unknown ?? t("unknown.reason")}>
        <Text
          span
          c="dimmed"
          inherit
          tabIndex={0}
          aria-label={`${unknown ?? t("unknown.label")}${reason ? `: ${reason}` : ""}`}
        >
          {unknown ?? "—"}
        </Text>
      </Tooltip>
    );
  }
  const text = (
    <span data-measured="" className="nowrap">
      {FORMATS[as](value, language)}
    </span>
  );
  if (as !== "compact") return text;
  return <Tooltip label={numbers.count(value, language)}>{text}</Tooltip>;
}
