import { TagsInput, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { changeGroup, useRefresh, type Detail, type GroupName } from "@/features/groups/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

/** As the API has them. */
const DESCRIPTION_CHARS_MAX = 500;
const TAGS_MAX = 20;

/** Description and tags. */
export function EditDialog({
  name,
  detail,
  etag,
  onClose,
}: {
  name: GroupName;
  detail: Detail;
  etag: string | null;
  onClose: () => void;
}) {
  const { t } = useTranslation("groups");
  const refresh = useRefresh();
  const [description, setDescription] = useState(detail.description ?? "");
  const [tags, setTags] = useState<string[]>(detail.tags ?? []);
  const values = { description, tags };
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("edit.title", { group: name.group })}
      run={(attempt) => changeGroup(name, values, etag, attempt)}
      inputs={JSON.stringify(values)}
      actionLabel={t("edit.action")}
      doneMessage={t("edit.done")}
      onDone={refresh}
    >
      <Textarea
        label={t("about.description")}
        autosize
        minRows={2}
        maxLength={DESCRIPTION_CHARS_MAX}
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
        data-autofocus
      />
      <TagsInput
        label={t("about.tags")}
        description={t("edit.tags_hint")}
        maxTags={TAGS_MAX}
        value={tags}
        onChange={setTags}
      />
    </ChangeDialog>
  );
}
