import { Group, List, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { PreviewedWork } from "@/shared/PreviewedWork";
import { readProperties } from "@/features/delayed/properties";
import { askCalendar, bulkCancel, delayedKey } from "@/features/delayed/queries";
import { slices, type Slice } from "@/features/delayed/slices";
import { count } from "@/format/numbers";
import { utc, zoneName } from "@/format/times";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useLanguage, useZone } from "@/ui/preferences";
import { Unreachable } from "@/ui/measure/Unreachable";

interface Props {
  onClose: () => void;
  subject: string;
  /** What the list is filtered by, to begin with. */
  initial: { from: string | null; to: string | null; match: string };
}

interface Answered {
  unreachable: Record<string, string>;
}

function matchedBy(pieces: readonly { expected: number }[]): number {
  return pieces.reduce((sum, { expected }) => sum + expected, 0);
}

function unreachableOf(pieces: readonly Answered[]): Record<string, string> {
  return Object.assign({}, ...pieces.map(({ unreachable }) => unreachable)) as Record<string, string>;
}

/** Cancel all pending messages of a subject that match: counted first, then cancelled, both piece by piece. */
export function BulkCancel({ onClose, subject, initial }: Props) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const zone = useZone();
  const [text, setText] = useState(initial.match);
  const [range, setRange] = useState<Slice>({ from: initial.from, to: initial.to });
  const { properties: match, wrong } = readProperties(text);
  return (
    <PreviewedWork
      refreshes={[delayedKey]}
      onClose={onClose}
      title={t("bulk.title", { subject })}
      confirmName={subject}
      actionLabel={t("bulk.do")}
      doneMessage={t("bulk.started")}
      isReady={wrong === null}
      inputs={JSON.stringify([text, range])}
      isWorthIt={(pieces) => matchedBy(pieces) > 0}
      preview={async () => {
        const { hours } = await askCalendar(subject, range);
        const pieces = [];
        for (const piece of slices(hours, range)) {
          const counted = await bulkCancel({ subject, match, ...piece }, { dryRun: true, reason: "" });
          pieces.push({ ...piece, expected: counted.matched, unreachable: counted.unreachable });
        }
        return pieces;
      }}
      itemsOf={(pieces) => pieces.filter(({ expected }) => expected > 0)}
      one={({ from, to, expected }, reason, signal) =>
        bulkCancel({ subject, match, from, to, expected }, { dryRun: false, reason }, signal)
      }
      result={(pieces) => {
        const cancelled = pieces.reduce((sum, piece) => sum + piece.cancelled, 0);
        const tooLate = pieces.reduce((sum, piece) => sum + piece.too_late, 0);
        return (
          <>
            <Text fw={600} data-cancelled={cancelled}>
              {t("bulk.cancelled", { count: cancelled, shown: count(cancelled, language) })}
            </Text>
            {tooLate > 0 && (
              <Text c="orange">{t("bulk.too_late", { count: tooLate, shown: count(tooLate, language) })}</Text>
            )}
            <Unreachable of={unreachableOf(pieces)} />
          </>
        );
      }}
      show={(pieces) => (
        <Stack gap="xs">
          <Text size="sm" fw={600} data-matched={matchedBy(pieces)}>
            {t("bulk.matched", { count: matchedBy(pieces), shown: count(matchedBy(pieces), language), subject })}
          </Text>
          <List size="sm">
            {Object.entries(match).map(([name, value]) => (
              <List.Item key={name} className="break">
                {name} = {value}
              </List.Item>
            ))}
            {range.from && <List.Item>{t("bulk.from", { at: utc(range.from) })}</List.Item>}
            {range.to && <List.Item>{t("bulk.to", { at: utc(range.to) })}</List.Item>}
          </List>
          <Text size="sm">{t("bulk.for_good")}</Text>
          <Unreachable of={unreachableOf(pieces)} />
        </Stack>
      )}
    >
      <Textarea
        label={t("bulk.properties")}
        description={t("bulk.properties_hint")}
        error={wrong === null ? undefined : t("bulk.properties_wrong", { line: wrong })}
        rows={3}
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-field="properties"
      />
      <Group grow align="flex-start">
        {(["from", "to"] as const).map((end) => (
          <InstantInput
            key={end}
            direction="future"
            label={t(`bulk.due_${end}`, { zone: zoneName(zone) })}
            value={range[end]}
            onChange={(at) => setRange({ ...range, [end]: at })}
          />
        ))}
      </Group>
    </PreviewedWork>
  );
}
