import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconPencil } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { OfGroup } from "@/features/groups/queries";
import { Instant } from "@/ui/measure/Instant";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const EditDialog = whenDrawn(async () => (await import("@/features/groups/EditDialog")).EditDialog);

/** What people set of the group, and since when it is known. */
export function About({ name, detail, etag }: OfGroup) {
  const { t } = useTranslation("groups");
  const [edited, setEdited] = useState<{ etag: string | null } | null>(null);
  const tags = detail.tags ?? [];
  return (
    <Stack gap="xs" align="flex-start">
      <Line label={t("common:field.description")}>{detail.description || t("about.no_description")}</Line>
      <Line label={t("common:field.tags")}>
        {tags.length === 0
          ? "—"
          : tags.map((tag) => (
              <Badge key={tag} variant="light" mr={4}>
                {tag}
              </Badge>
            ))}
      </Line>
      <Line label={t("column.owner")}>{detail.owner ?? t("about.nobody")}</Line>
      <Line label={t("about.first_seen")}>
        <Instant at={detail.first_seen_at} />
      </Line>
      {detail.is_paused && detail.pause_reason && (
        <Line label={t("common:field.pause_reason")}>{detail.pause_reason}</Line>
      )}
      {detail.may_change && (
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPencil size={14} aria-hidden />}
          onClick={() => setEdited({ etag })}
        >
          {t("about.edit")}
        </Button>
      )}
      {edited && <EditDialog name={name} detail={detail} etag={edited.etag} onClose={() => setEdited(null)} />}
    </Stack>
  );
}

function Line({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Group gap="sm" align="baseline" wrap="nowrap">
      <Text size="sm" c="dimmed" miw={96}>
        {label}
      </Text>
      <Text size="sm" component="div" className="break">
        {children}
      </Text>
    </Group>
  );
}
