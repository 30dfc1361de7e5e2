import { List, NativeSelect, Radio, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { change } from "@/api/requests";
import { groupsKey, type OfGroup, type ResetDone } from "@/features/groups/queries";
import { PLACES, resetRequest, sequenceProblem, totals, type ResetFields } from "@/features/groups/reset";
import * as numbers from "@/format/numbers";
import { sequence } from "@/format/numbers";
import { zoneName } from "@/format/times";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { Measured } from "@/ui/measure/Measured";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useLanguage, useZone } from "@/ui/preferences";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

const NOTHING: ResetFields = { to: "earliest", time: null, sequence: "", brokerGroup: "" };

/** Set the group's progress somewhere else; what that skips and repeats is shown first. */
export function ResetDialog({ name, detail, etag, onClose }: OfGroup & { onClose: () => void }) {
  const { t } = useTranslation("groups");
  const zone = useZone();
  const [fields, setFields] = useState(NOTHING);
  const edit = (some: Partial<ResetFields>) => setFields((before) => ({ ...before, ...some }));
  const request = resetRequest(fields);
  const place = detail.progress.find(({ broker_group: of }) => of === fields.brokerGroup);
  const problem = sequenceProblem(fields.sequence, place);
  const stored =
    place?.begin_sequence != null && place.end_sequence !== null
      ? t("reset.stored", { begin: sequence(place.begin_sequence), end: sequence(place.end_sequence) })
      : undefined;
  return (
    <PreviewDialog
      onClose={onClose}
      title={t("reset.title", { group: name.group })}
      run={(attempt) =>
        change("post", "/api/v1/consumer-groups/{subject}/{group}/reset/", attempt, {
          path: name,
          etag,
          body: request ?? { to: fields.to },
        })
      }
      show={(preview) => <ResetPreview preview={preview} />}
      isWorthIt={(preview) => preview.is_change}
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
        <InstantInput
          direction="past"
          label={t("reset.time_field", { zone: zoneName(zone) })}
          value={fields.time}
          onChange={(time) => edit({ time })}
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
    </PreviewDialog>
  );
}

/** What a reset skips and repeats: in words, then on each broker group. */
function ResetPreview({ preview }: { preview: ResetDone }) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const of = totals(preview);
  const sentence = (what: "skipped" | "repeated" | "in_flight") => {
    const value = of[what];
    if (value === null) return t(`preview.${what}_unknown`);
    return t(`preview.${what}`, { count: value, number: numbers.count(value, language) });
  };
  const at = (position: string | null) => (position === null ? "—" : numbers.sequence(position));
  const differing = (["skipped", "repeated", "in_flight"] as const).filter((what) => of[what] !== 0);
  return (
    <Stack gap="xs">
      {preview.is_change ? (
        <>
          {of.skipped === 0 && of.repeated === 0 && <Text size="sm">{t("preview.neither")}</Text>}
          <List size="sm">
            {differing.map((what) => (
              <List.Item key={what} data-says={what}>
                {sentence(what)}
              </List.Item>
            ))}
          </List>
        </>
      ) : (
        <Text size="sm">{t("preview.nothing")}</Text>
      )}
      <PlainTable
        withTableBorder
        minWidth={240}
        columns={defineColumns<ResetDone["broker_groups"][number]>(
          (id) => t(`preview.${id}`),
          (column) => [
            column("broker_group", { header: t("places.broker_group"), isFixed: true }, (one) => one.broker_group),
            column("from", { align: "right" }, (one) => at(one.position)),
            column("to", { align: "right" }, (one) => at(one.new_position)),
            column("skips", { align: "right" }, (one) => <Measured value={one.skipped} />),
            column("repeats", { align: "right" }, (one) => <Measured value={one.repeated} />),
          ],
        )}
        rows={preview.broker_groups}
        rowKey={(one) => one.broker_group}
      />
    </Stack>
  );
}
