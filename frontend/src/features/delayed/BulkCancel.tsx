import { Group, List, Stack, Text, Textarea } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { Progress } from "@/features/delayed/Progress";
import { readProperties } from "@/features/delayed/properties";
import { askCalendar, bulkCancel, delayedKey, type BulkCancelled } from "@/features/delayed/queries";
import { slices, type Slice } from "@/features/delayed/slices";
import { count } from "@/format/numbers";
import { utc, zoneName } from "@/format/times";
import { PlanDialog } from "@/ui/ChangeDialog";
import { InstantInput } from "@/ui/dates/InstantInput";
import { useLanguage, useZone } from "@/ui/preferences";
import { Unreachable } from "@/ui/Unreachable";
import { useSteps } from "@/ui/useSteps";

interface Props {
  opened: boolean;
  onClose: () => void;
  subject: string;
  /** What the list is filtered by, to begin with. */
  initial: { from: string | null; to: string | null; property: string };
}

/** Cancel all pending messages of a subject that match: counted first, then piece by piece. */
export function BulkCancel(props: Props) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const client = useQueryClient();
  // What was planned and confirmed; the steps read it, nothing draws it.
  const work = useRef<{ subject: string; properties: Record<string, string>; reason: string; pieces: Slice[] } | null>(
    null,
  );
  const [total, setTotal] = useState(0);
  const steps = useSteps<BulkCancelled>(async (cursor, signal) => {
    const at = Number(cursor ?? 0);
    const piece = work.current?.pieces[at];
    if (!work.current || !piece) return { found: [], next: null, done: 0 };
    const { subject, properties, reason, pieces } = work.current;
    const done = await bulkCancel({ subject, properties, ...piece }, { dryRun: false, reason }, signal);
    return { found: [done], next: at + 1 < pieces.length ? String(at + 1) : null, done: 1 };
  });
  const cancelled = steps.found.reduce((sum, piece) => sum + piece.cancelled, 0);
  const tooLate = steps.found.reduce((sum, piece) => sum + piece.too_late, 0);
  const unreachable = Object.assign({}, ...steps.found.map((piece) => piece.unreachable)) as Record<string, string>;
  return (
    <>
      {props.opened && (
        <Ask
          {...props}
          onConfirmed={(subject, properties, reason, pieces) => {
            work.current = { subject, properties, reason, pieces };
            setTotal(pieces.length);
            steps.start();
          }}
        />
      )}
      <Progress
        title={t("bulk.title", { subject: props.subject })}
        steps={steps}
        total={total}
        onClose={() => {
          steps.reset();
          void client.invalidateQueries({ queryKey: delayedKey });
        }}
      >
        <Text fw={600} data-cancelled={cancelled}>
          {t("bulk.cancelled", { count: cancelled, shown: count(cancelled, language) })}
        </Text>
        {tooLate > 0 && (
          <Text c="orange">{t("bulk.too_late", { count: tooLate, shown: count(tooLate, language) })}</Text>
        )}
        <Unreachable of={unreachable} />
      </Progress>
    </>
  );
}

interface Plan {
  found: BulkCancelled;
  pieces: Slice[];
}

function Ask({
  onClose,
  subject,
  initial,
  onConfirmed,
}: Props & {
  onConfirmed: (subject: string, properties: Record<string, string>, reason: string, pieces: Slice[]) => void;
}) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const zone = useZone();
  const [text, setText] = useState(initial.property);
  const [range, setRange] = useState<Slice>({ from: initial.from, to: initial.to });
  const { properties, wrong } = readProperties(text);
  const planned = useRef<Plan | null>(null);
  const plan = async (): Promise<Plan> => {
    const found = await bulkCancel({ subject, properties, ...range }, { dryRun: true, reason: "" });
    const { hours } = await askCalendar(subject, range);
    planned.current = { found, pieces: slices(hours, range) };
    return planned.current;
  };
  return (
    <PlanDialog<Plan>
      onClose={onClose}
      title={t("bulk.title", { subject })}
      confirmName={subject}
      actionLabel={t("bulk.do")}
      doneMessage={t("bulk.started")}
      isReady={wrong === null}
      inputs={JSON.stringify([text, range])}
      isWorthIt={({ found }) => found.matched > 0}
      // Confirmed, it goes on piece by piece where its progress is shown.
      run={async ({ dryRun, reason }) => {
        if (dryRun || planned.current === null) return plan();
        onConfirmed(subject, properties, reason, planned.current.pieces);
        return planned.current;
      }}
      show={({ found }) => (
        <Stack gap="xs">
          <Text size="sm" fw={600} data-matched={found.matched}>
            {t("bulk.matched", { count: found.matched, shown: count(found.matched, language), subject })}
          </Text>
          <List size="sm">
            {Object.entries(properties).map(([name, value]) => (
              <List.Item key={name} className="break">
                {name} = {value}
              </List.Item>
            ))}
            {range.from && <List.Item>{t("bulk.from", { at: utc(range.from) })}</List.Item>}
            {range.to && <List.Item>{t("bulk.to", { at: utc(range.to) })}</List.Item>}
          </List>
          <Text size="sm">{t("bulk.for_good")}</Text>
          <Unreachable of={found.unreachable} />
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
    </PlanDialog>
  );
}
