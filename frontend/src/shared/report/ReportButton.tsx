import { Button, type ButtonProps } from "@mantine/core";
import { IconFileReport } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { ReportDialogProps } from "@/shared/report/ReportDialog";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const ReportDialog = whenDrawn<ReportDialogProps>(
  async () => (await import("@/shared/report/ReportDialog")).ReportDialog,
  ["ranges"],
);

/** Opens the dialog for an incident report; `span` is what it offers when it is clicked. */
export function ReportButton({ span, ...props }: ButtonProps & { span: () => ReportDialogProps["span"] }) {
  const { t } = useTranslation("events");
  const [offered, setOffered] = useState<ReportDialogProps["span"] | null>(null);
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconFileReport size={16} aria-hidden />}
        data-action="report"
        onClick={() => setOffered(span())}
        {...props}
      >
        {t("report.title")}
      </Button>
      {offered && <ReportDialog opened onClose={() => setOffered(null)} span={offered} />}
    </>
  );
}
