import { Button, Group, Paper, Text } from "@mantine/core";
import { IconArchive, IconTags, IconUsers } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { BULK_MAX, type BulkChange } from "@/features/subjects/bulk";
import { BulkDialog } from "@/features/subjects/BulkDialog";
import { useRefresh } from "@/features/subjects/queries";

/** What can be done with the subjects that are selected. */
export function BulkActions({ selected, onDone }: { selected: ReadonlySet<string>; onDone: () => void }) {
  const { t } = useTranslation("subjects");
  const refresh = useRefresh();
  const [kind, setKind] = useState<BulkChange["kind"] | null>(null);
  const isTooMany = selected.size > BULK_MAX;
  const close = (isChanged: boolean) => {
    setKind(null);
    if (!isChanged) return;
    refresh();
    onDone();
  };
  return (
    <Paper withBorder p="xs" mb="xs" role="region" aria-label={t("bulk.label")}>
      <Group gap="xs">
        <Text size="sm" fw={600} aria-live="polite">
          {t("bulk.selected", { count: selected.size })}
        </Text>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconUsers size={14} aria-hidden />}
          disabled={isTooMany}
          onClick={() => setKind("owner")}
        >
          {t("bulk.owner")}
        </Button>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconTags size={14} aria-hidden />}
          disabled={isTooMany}
          onClick={() => setKind("tags")}
        >
          {t("bulk.tags")}
        </Button>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconArchive size={14} aria-hidden />}
          disabled={isTooMany}
          onClick={() => setKind("archive")}
        >
          {t("bulk.archive")}
        </Button>
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
