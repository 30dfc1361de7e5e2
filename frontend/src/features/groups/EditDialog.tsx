import { TagsInput, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { limit } from "@/api/limits";
import { change } from "@/api/requests";
import { groupsKey, type OfGroup } from "@/features/groups/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";

/** Everything that is set of a group. */
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
      <Textarea
        label={t("common:field.description")}
        autosize
        minRows={2}
        {...fields.text("description")}
        data-autofocus
      />
      <TagsInput
        label={t("common:field.tags")}
        description={t("edit.tags_hint")}
        maxTags={limit("NewGroupRequest", "tags", "maxItems")}
        {...fields.chosen("tags")}
      />
    </ChangeDialog>
  );
}
