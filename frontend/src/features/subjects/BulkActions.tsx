import { Button, Group, Paper, Text } from "@mantine/core";
import { IconArchive, IconTags, IconUsers } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { BULK_MAX, type BulkChange } from "@/features/subjects/bulk";
import { subjectsKey } from "@/features/subjects/queries";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const BulkDialog = whenDrawn(async () => (await import("@/features/subjects/BulkDialog")).BulkDialog);

const ACTIONS = [
  ["owner", IconUsers],
  ["tags", IconTags],
  ["archive", IconArchive],
] as const;

/** What can be done with the subjects that are selected. */
export function BulkActions({ selected, onDone }: { selected: ReadonlySet<string>; onDone: () => void }) {
  const { t } = useTranslation("subjects");
  const client = useQueryClient();
  const [kind, setKind] = useState<BulkChange["kind"] | null>(null);
  const isTooMany = selected.size > BULK_MAX;
  const close = (isChanged: boolean) => {
    setKind(null);
    if (!isChanged) return;
    void client.invalidateQueries({ queryKey: subjectsKey });
    onDone();
  };
  return (
    <Paper withBorder p="xs" mb="xs" role="region" aria-label={t("bulk.label")}>
      <Group gap="xs">
        <Text size="sm" fw={600} aria-live="polite">
          {t("bulk.selected", { count: selected.size })}
        </Text>
        {ACTIONS.map(([action, Icon]) => (
          <Button
            key={action}
            size="xs"
            variant="default"
            leftSection={<Icon size={14} aria-hidden />}
            disabled={isTooMany}
            onClick={() => setKind(action)}
          >
            {t(`bulk.${action}`)}
          </Button>
        ))}
        <Button size="xs" variant="subtle" onClick={onDone}>
          {t("bulk.clear")}
        </Button>
        {isTooMany && (
          <Text size="sm" c="dimmed">
            {t("bulk.too_many", { max: BULK_MAX })}
          </Text>
        )}
      </Group>
      {kind && <BulkDialog kind={kind} subjects={[...selected].sort()} onClose={close} />}
    </Paper>
  );
}
