import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { SPAN_DAYS_MAX, spanProblem, type Span } from "@/shared/ranges/range";
import { InstantInput } from "@/ui/dates/InstantInput";

/** Both ends of a chosen span. Those that make no span are kept in the fields, with the reason. */
export function SpanFields({ span, onChange }: { span: Span; onChange: (span: Span) => void }) {
  const { t } = useTranslation("ranges");
  const [wrong, setWrong] = useState<{ span: Span; problem: string } | null>(null);
  const shown = wrong?.span ?? span;
  const change = (ends: Partial<Span>) => {
    const next = { ...shown, ...ends };
    const problem = spanProblem(next, Date.now());
    setWrong(problem ? { span: next, problem } : null);
    if (!problem) onChange(next);
  };
  return (["from", "to"] as const).map((end) => (
    <InstantInput
      key={end}
      size="xs"
      direction="past"
      aria-label={t(end)}
      value={shown[end]}
      error={end === "to" && wrong && t(`problem.${wrong.problem}`, { days: SPAN_DAYS_MAX })}
      onChange={(at) => {
        if (at) change({ [end]: at });
      }}
    />
  ));
}
