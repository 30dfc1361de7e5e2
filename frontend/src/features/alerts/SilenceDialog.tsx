import { Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { alertsKey, createSilence } from "@/features/alerts/queries";
import { endsAt, PRESETS, SILENCE_DAYS_MAX, UNTIL } from "@/features/alerts/silenceTimes";
import { zoneName } from "@/format/times";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useZone } from "@/ui/preferences";

interface Props {
  /** Globs to begin with. */
  rule?: string;
  target?: string;
  onClose: () => void;
}

/** Keep alerts from being told for a time. */
export function SilenceDialog({ rule = "*", target = "*", onClose }: Props) {
  const { t } = useTranslation("alerts");
  const zone = useZone();
  const client = useQueryClient();
  const lengthLabel = useId();
  const [draft, setDraft] = useState({ rule, target, choice: "1h", until: null as string | null, reason: "" });
  const set = (changes: Partial<typeof draft>) => setDraft({ ...draft, ...changes });
  const isReady =
    draft.rule !== "" &&
    draft.target !== "" &&
    draft.reason.trim() !== "" &&
    (draft.choice !== UNTIL || draft.until !== null);
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t("silence.title")}
      actionLabel={t("silence.action")}
      doneMessage={t("silence.done")}
      reasonField={false}
      inputs={JSON.stringify(draft)}
      isReady={isReady}
      run={({ dryRun }) =>
        createSilence(
          {
            rule: draft.rule,
            target: draft.target,
            endsAt: endsAt(draft.choice, draft.until, Date.now()) ?? "",
            reason: draft.reason.trim(),
          },
          dryRun,
        )
      }
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
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
            maxLength={300}
            value={draft.rule}
            onChange={(event) => set({ rule: event.currentTarget.value })}
          />
          <TextInput
            label={t("silence.targets")}
            description={t("rule.target_hint")}
            required
            maxLength={300}
            value={draft.target}
            onChange={(event) => set({ target: event.currentTarget.value })}
          />
        </Group>
        <div>
          <Text size="sm" fw={500} id={lengthLabel}>
            {t("silence.length")}
          </Text>
          <SegmentedControl
            aria-labelledby={lengthLabel}
            value={draft.choice}
            data={[...PRESETS.map(({ id }) => id), UNTIL].map((value) => ({
              value,
              label: t(`silence.preset.${value}`),
            }))}
            onChange={(choice) => set({ choice })}
          />
        </div>
        {draft.choice === UNTIL && (
          <InstantInput
            direction="future"
            label={t("silence.until", { zone: zoneName(zone) })}
            description={t("silence.until_hint", { days: SILENCE_DAYS_MAX })}
            required
            value={draft.until}
            onChange={(until) => set({ until })}
          />
        )}
        <TextInput
          label={t("silence.reason")}
          description={t("silence.reason_hint")}
          required
          maxLength={500}
          value={draft.reason}
          data-autofocus
          onChange={(event) => set({ reason: event.currentTarget.value })}
        />
      </Stack>
    </ChangeDialog>
  );
}
