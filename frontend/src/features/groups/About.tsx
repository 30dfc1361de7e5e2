import { Badge, Button, Group, Stack, TagsInput, Text, Textarea } from "@mantine/core";
import { IconPencil } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { limit } from "@/api/limits";
import { change } from "@/api/requests";
import { groupsKey, type OfGroup } from "@/features/groups/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { Instant } from "@/ui/Instant";

/** Description and tags. */
export function EditDialog({ name, detail, etag, onClose }: OfGroup & { onClose: () => void }) {
  const { t } = useTranslation("groups");
  const [values, setValues] = useState({ description: detail.description ?? "", tags: detail.tags ?? [] });
  const fields = fieldsOf(values, (some) => setValues({ ...values, ...some }), "NewGroupRequest");
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("edit.title", { group: name.group })}
      run={(attempt) =>
        change("patch", "/api/v1/consumer-groups/{subject}/{group}/", attempt, { path: name, etag, body: values })
      }
      inputs={JSON.stringify(values)}
      actionLabel={t("edit.action")}
      doneMessage={t("edit.done")}
      refreshes={[groupsKey]}
    >
      <Textarea label={t("about.description")} autosize minRows={2} {...fields.text("description")} data-autofocus />
      <TagsInput
        label={t("about.tags")}
        description={t("edit.tags_hint")}
        maxTags={limit("NewGroupRequest", "tags", "maxItems")}
        {...fields.chosen("tags")}
      />
    </ChangeDialog>
  );
}

/** What people wrote about the group, and since when it is known. */
export function About({ name, detail, etag }: OfGroup) {
  const { t } = useTranslation("groups");
  const [edited, setEdited] = useState<{ etag: string | null } | null>(null);
  const tags = detail.tags ?? [];
  return (
    <Stack gap="xs" align="flex-start">
      <Line label={t("about.description")}>{detail.description || t("about.no_description")}</Line>
      <Line label={t("about.tags")}>
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
      {detail.is_paused && detail.pause_reason && <Line label={t("about.pause_reason")}>{detail.pause_reason}</Line>}
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
