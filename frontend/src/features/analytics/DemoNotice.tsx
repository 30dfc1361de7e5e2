import { Alert, Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { analyticsKey, demoOptions, replaceDemo } from "@/features/analytics/queries";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { jobsKey } from "@/shared/RunNow";

/** Which time the demo data covers, whether scheduled runs replace it, and the action that makes them. */
export function DemoNotice() {
  const { t } = useTranslation("analytics");
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery(demoOptions());
  if (!data || data.tables.length === 0) return null;
  return (
    <Alert color="grape" mb="md" data-demo-notice="">
      <Group justify="space-between" p={4}>
        <Text size="sm">
          {t("demo.range")} <Instant at={data.from_at} /> {t("demo.to")} <Instant at={data.to_at} />.{" "}
          {t(data.is_replaceable ? "demo.replaced_next" : "demo.kept")}
        </Text>
        {may("change_cluster") && !data.is_replaceable && (
          <Button size="compact-sm" variant="default" onClick={() => setOpen(true)}>
            {t("demo.replace")}
          </Button>
        )}
      </Group>
      <PreviewDialog
        opened={isOpen}
        onClose={() => setOpen(false)}
        title={t("demo.replace")}
        actionLabel={t("demo.replace")}
        doneMessage={t("demo.requested")}
        run={replaceDemo}
        refreshes={[analyticsKey, jobsKey]}
      >
        <Text size="sm">{t("demo.consequence", { count: data.tables.length })}</Text>
      </PreviewDialog>
    </Alert>
  );
}
