import { NativeSelect, Radio, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { change } from "@/api/requests";
import { groupsKey, type Detail, type GroupName } from "@/features/groups/queries";
import { PLACES, resetRequest, sequenceProblem, type ResetFields } from "@/features/groups/reset";
import { ResetPlan } from "@/features/groups/ResetPlan";
import { sequence } from "@/format/numbers";
import { zoneName } from "@/format/times";
import { PlanDialog } from "@/ui/ChangeDialog";
import { useZone } from "@/ui/preferences";

const NOTHING: ResetFields = { to: "earliest", time: "", sequence: "", brokerGroup: "" };

/** Set the group's progress somewhere else; what that skips and repeats is shown first. */
export function ResetDialog({
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
  const zone = useZone();
  const [fields, setFields] = useState(NOTHING);
  const edit = (some: Partial<ResetFields>) => setFields((before) => ({ ...before, ...some }));
  const request = resetRequest(fields, zone);
  const place = detail.progress.find(({ broker_group: of }) => of === fields.brokerGroup);
  const problem = sequenceProblem(fields.sequence, place);
  const stored =
    place?.begin_sequence != null && place.end_sequence !== null
      ? t("reset.stored", { begin: sequence(place.begin_sequence), end: sequence(place.end_sequence) })
      : undefined;
  return (
    <PlanDialog
      onClose={onClose}
      title={t("reset.title", { group: name.group })}
      run={(attempt) =>
        change("post", "/api/v1/consumer-groups/{subject}/{group}/reset/", attempt, {
          path: name,
          etag,
          body: request ?? { to: fields.to },
        })
      }
      show={(plan) => <ResetPlan plan={plan} />}
      isWorthIt={(plan) => plan.is_change}
      inputs={JSON.stringify(fields)}
      isReady={request !== null}
      confirmName={name.group}
      actionLabel={t("action.reset")}
      doneMessage={t("reset.done", { group: name.group })}
      refreshes={[groupsKey]}
    >
      <Radio.Group label={t("reset.to")} value={fields.to} onChange={(to) => edit({ to: to })}>
        <Stack gap={6} mt={6}>
          {PLACES.map((to) => (
            <Radio key={to} value={to} label={t(`reset.${to}`)} description={t(`reset.${to}_hint`)} />
          ))}
        </Stack>
      </Radio.Group>
      {fields.to === "time" && (
        <TextInput
          type="datetime-local"
          step={1}
          label={t("reset.time_field", { zone: zoneName(zone) })}
          value={fields.time}
          onChange={(event) => edit({ time: event.currentTarget.value })}
        />
      )}
      <NativeSelect
        label={t("reset.where")}
        value={fields.brokerGroup}
        onChange={(event) => edit({ brokerGroup: event.currentTarget.value })}
        data={[
          { value: "", label: t(fields.to === "sequence" ? "reset.choose" : "reset.everywhere") },
          ...detail.progress.map(({ broker_group: value }) => ({ value, label: value })),
        ]}
      />
      {fields.to === "sequence" && (
        <TextInput
          label={t("reset.sequence_field")}
          inputMode="numeric"
          description={stored}
          error={problem === "digits" ? t("reset.digits") : undefined}
          value={fields.sequence}
          onChange={(event) => edit({ sequence: event.currentTarget.value.trim() })}
        />
      )}
      {fields.to === "sequence" && problem === "outside" && <span data-warning="outside">{t("reset.outside")}</span>}
    </PlanDialog>
  );
}
