import { Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { alertsKey } from "@/api/alerts";
import { endsAt, PRESETS, SILENCE_DAYS_MAX, UNTIL } from "@/shared/alerts/silenceTimes";
import { zoneName } from "@/format/times";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Labelled } from "@/ui/page/Labelled";
import { InstantInput } from "@/ui/dates/InstantInput";
import { fieldsOf } from "@/ui/fields";
import { useZone } from "@/ui/preferences";

interface Props {
  /** Globs to begin with. */
  rule?: string;
  target?: string;
  onClose: () => void;
}

/** Suppress notifications of alerts for a time. */
export function SilenceDialog({ rule = "*", target = "*", onClose }: Props) {
  const { t } = useTranslation("alerts");
  const zone = useZone();
  const [draft, setDraft] = useState({ rule, target, choice: "1h", until: null as string | null, reason: "" });
  const fields = fieldsOf(draft, (some) => setDraft({ ...draft, ...some }), "NewSilenceRequest");
  const isReady =
    draft.rule !== "" &&
    draft.target !== "" &&
    draft.reason.trim() !== "" &&
    (draft.choice !== UNTIL || draft.until !== null);
  return (
    <ChangeDialog
      onClose={onClose}
      affects={`${draft.rule} · ${draft.target}`}
      title={t("silence.title")}
      actionLabel={t("silence.action")}
      doneMessage={t("silence.done")}
      reasonField={false}
      inputs={JSON.stringify(draft)}
      isReady={isReady}
      run={({ dryRun }) =>
        change(
          "post",
          "/api/v1/silences/",
          { dryRun, reason: draft.reason.trim() },
          {
            body: {
              rule: draft.rule,
              target: draft.target,
              ends_at: endsAt(draft.choice, draft.until, Date.now()) ?? "",
            },
          },
        )
      }
      refreshes={[alertsKey]}
    >
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          {t("silence.about")}
        </Text>
        <Group grow align="flex-start">
          <TextInput
            label={t("silence.rules")}
            description={t("silence.glob_hint")}
            required
            {...fields.text("rule")}
          />
          <TextInput label={t("silence.targets")} description={t("target_hint")} required {...fields.text("target")} />
        </Group>
        <Labelled label={t("silence.length")}>
          {(id) => (
            <SegmentedControl
              aria-labelledby={id}
              data={[...PRESETS.map((preset) => preset.id), UNTIL].map((value) => ({
                value,
                label: t(`silence.preset.${value}`),
              }))}
              {...fields.chosen("choice")}
            />
          )}
        </Labelled>
        {draft.choice === UNTIL && (
          <InstantInput
            direction="future"
            label={t("silence.until", { zone: zoneName(zone) })}
            description={t("silence.until_hint", { days: SILENCE_DAYS_MAX })}
            required
            {...fields.chosen("until")}
          />
        )}
        <TextInput
          label={t("silence.reason")}
          description={t("silence.reason_hint")}
          required
          data-autofocus
          {...fields.text("reason")}
        />
      </Stack>
    </ChangeDialog>
  );
}
