import { MultiSelect, NumberInput, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import type { MemberDialog } from "@/features/brokers/members/members";
import { OUTDATED } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";

/** Change how many members a broker group has, how many have to be in sync, and which one is promoted first. */
export function CopiesDialog({ group, etag, onClose }: MemberDialog) {
  const { t } = useTranslation("brokers");
  const { name, members } = group;
  const [values, setValues] = useState<{ copies: number | ""; in_sync_min: number | ""; preferred: string[] }>({
    copies: group.copies,
    in_sync_min: group.in_sync_min,
    preferred: group.preferred,
  });
  const fields = fieldsOf(values, (some) => setValues({ ...values, ...some }), "CopiesRequest");
  const { copies, in_sync_min: minimum, preferred } = values;
  const isLowered = minimum !== "" && minimum < group.in_sync_min;
  const body = {
    ...(copies !== "" && copies !== group.copies && { copies }),
    ...(minimum !== "" && minimum !== group.in_sync_min && { in_sync_min: minimum }),
    ...(preferred.join() !== group.preferred.join() && { preferred }),
  };
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("copies.title", { name })}
      actionLabel={t("copies.do")}
      doneMessage={t("copies.done", { name })}
      // Fewer copies than before have to be complete when a send is acknowledged.
      confirmName={isLowered ? name : undefined}
      inputs={JSON.stringify(values)}
      isReady={copies !== "" && minimum !== "" && Object.keys(body).length > 0}
      run={(attempt) => change("post", "/api/v1/broker-groups/{name}/copies/", attempt, { path: { name }, etag, body })}
      refreshes={OUTDATED}
    >
      <NumberInput
        label={t("copies.copies")}
        description={t("copies.copies_hint")}
        allowDecimal={false}
        {...fields.number("copies")}
        data-autofocus
      />
      <NumberInput
        label={t("copies.minimum")}
        description={t("copies.minimum_hint")}
        allowDecimal={false}
        {...fields.number("in_sync_min")}
      />
      {isLowered && (
        <Text size="sm" c="red">
          {t("copies.lowered")}
        </Text>
      )}
      {members.length > 1 && (
        <MultiSelect
          label={t("copies.preferred")}
          description={t("copies.preferred_hint")}
          data={members}
          {...fields.chosen("preferred")}
        />
      )}
    </ChangeDialog>
  );
}
