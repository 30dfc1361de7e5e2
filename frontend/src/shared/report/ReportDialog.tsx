import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { SPAN_DAYS_MAX, type Span } from "@/shared/ranges/range";
import { useRecordedReason } from "@/ui/reasons";
import { collect } from "@/shared/report/collect";
import { reportPage } from "@/shared/report/page";
import { wrongSpan } from "@/shared/report/span";
import { useRuleName } from "@/shared/ruleNames";
import { useEventText } from "@/shared/useEventText";
import { InstantInput } from "@/ui/dates/InstantInput";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { loadSent } from "@/i18n/sentences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { useLanguage } from "@/ui/preferences";

export interface ReportDialogProps {
  opened: boolean;
  onClose: () => void;
  /** What is offered; null: not known. */
  span: { from: string | null; to: string | null };
}

function save(page: string, { from }: Span): void {
  const url = URL.createObjectURL(new Blob([page], { type: "text/html;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `incident-${from.slice(0, 16).replace(/[-:]/g, "").replace("T", "-")}.html`;
  link.click();
  // The browser has read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Asks for a time span and makes the report of it: a file that the browser saves. */
export function ReportDialog({ opened, onClose, span }: ReportDialogProps) {
  const { t, language: shown } = useTranslation("events");
  const { t: range } = useTranslation("ranges");
  const [from, setFrom] = useState(span.from);
  const [to, setTo] = useState(span.to);
  const [now] = useState(() => Date.now());
  const may = useMay();
  const language = useLanguage();
  const text = useEventText();
  const rule = useRuleName();
  const reason = useRecordedReason();
  const make = useMutation({
    mutationFn: async (chosen: Span) => {
      const madeAt = new Date().toISOString();
      const to = Date.parse(chosen.to) > Date.parse(madeAt) ? madeAt : chosen.to;
      // A report with reasons in English is better than none.
      const sent = await loadSent(shown).catch(() => null);
      const found = await collect({ from: chosen.from, to }, may("read_audit"), new AbortController().signal);
      const words = {
        language,
        t: (key: string, values?: Record<string, string | number>) => t(key, { ...values }),
        range: (key: string, values?: Record<string, string | number>) => range(key, { ...values }),
        sentence: (event: Parameters<typeof text>[0]) => Object.values(text(event)).join(""),
        reason,
        sentReason: (reason: string) => sent?.translate(reason) ?? reason,
        rule,
      };
      save(reportPage(found, madeAt, words), chosen);
    },
    onSuccess: onClose,
  });
  const wrong = wrongSpan({ from, to }, now);
  return (
    <Dialog opened={opened} onClose={onClose} title={t("report.title")}>
      <Stack>
        <Text size="sm">{t("report.about", { days: SPAN_DAYS_MAX })}</Text>
        <Group grow>
          <InstantInput label={t("filter.since")} value={from} onChange={setFrom} direction="past" />
          <InstantInput label={t("filter.until")} value={to} onChange={setTo} direction="past" />
        </Group>
        {wrong && wrong.key !== "incomplete" && (
          <Alert color="orange" role="alert">
            {t(`report.wrong.${wrong.key}`, { days: wrong.days, most: SPAN_DAYS_MAX })}
          </Alert>
        )}
        {make.isError && <ProblemAlert error={make.error} />}
        <DialogFooter>
          <Button
            disabled={wrong !== null}
            loading={make.isPending}
            onClick={() => from !== null && to !== null && make.mutate({ from, to })}
          >
            {t("report.make")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
