import { NativeSelect } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { PlaceForm } from "@/features/groups/PlaceForm";
import { groupsKey, resetGroup, type OfGroup } from "@/features/groups/queries";
import { NO_PLACE, PLACES, resetRequest, type PlaceFields } from "@/features/groups/reset";
import { ResetPreview } from "@/features/groups/ResetPreview";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";

/** Set the group's progress somewhere else; what that skips and repeats is shown first. */
export function ResetDialog({ name, detail, etag, onClose }: OfGroup & { onClose: () => void }) {
  const { t } = useTranslation("groups");
  const [fields, setFields] = useState(NO_PLACE);
  const edit = (some: Partial<PlaceFields>) => setFields((before) => ({ ...before, ...some }));
  const request = resetRequest(fields);
  return (
    <PreviewDialog
      onClose={onClose}
      title={t("reset.title", { group: name.group })}
      run={(attempt) => resetGroup(name, request ?? { to: "latest" }, etag, attempt)}
      show={(preview) => <ResetPreview preview={preview} />}
      isWorthIt={(preview) => preview.is_change}
      inputs={JSON.stringify(fields)}
      isReady={request !== null}
      confirmName={name.group}
      actionLabel={t("action.reset")}
      doneMessage={t("reset.done", { group: name.group })}
      refreshes={[groupsKey]}
    >
      <PlaceForm {...name} words="reset" choices={PLACES} fields={fields} edit={edit} places={detail.progress} />
      {fields.to !== "positions" && (
        <NativeSelect
          label={t("reset.where")}
          value={fields.brokerGroup}
          onChange={(event) => edit({ brokerGroup: event.currentTarget.value })}
          data={[
            { value: "", label: t("reset.everywhere") },
            ...detail.progress.map(({ broker_group: value }) => ({ value, label: value })),
          ]}
        />
      )}
    </PreviewDialog>
  );
}
