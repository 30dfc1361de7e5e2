import { Alert, Badge, Button, Group, Progress, Select, Stack, TagsInput, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { applyStep, previewStep, type BulkChange, type Outcome } from "@/features/subjects/bulk";
import { useOwners } from "@/features/subjects/SubjectFields";
import { TAGS_MAX } from "@/features/subjects/values";
import { differences } from "@/format/values";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { ProblemText } from "@/ui/page/ProblemText";
import { useSteps, type Steps } from "@/ui/dialog/useSteps";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { useConfirmation } from "@/ui/dialog/useConfirmation";
import { useValueLine } from "@/ui/measure/useValueLine";
import { Table } from "@/ui/table/Table";

/**
 * The same change for several subjects: the preview of each, then one after the other, with progress and a way to stop.
 */
export function BulkDialog({
  kind,
  subjects,
  onClose,
}: {
  kind: BulkChange["kind"];
  subjects: readonly string[];
  /** Whether anything was changed. */
  onClose: (isChanged: boolean) => void;
}) {
  const { t } = useTranslation("subjects");
  const [owner, setOwner] = useState<string | null>(null);
  const owners = useOwners();
  const [tags, setTags] = useState<{ add: string[]; remove: string[] }>({ add: [], remove: [] });
  const bulk: BulkChange = kind === "owner" ? { kind, owner } : kind === "tags" ? { kind, ...tags } : { kind };
  const preview = useSteps<Outcome>(previewStep(bulk, subjects));
  const todo = preview.found.filter(({ change }) => change?.is_change);
  const confirm = kind === "archive" ? String(todo.length) : "";
  const { reason, isGiven, inputs } = useConfirmation({
    typed: confirm,
    typedInput: { label: t("bulk.type_count", { number: confirm }), inputMode: "numeric" },
  });
  const work = useSteps<Outcome>(applyStep(bulk, todo, reason));
  const isReady = kind !== "tags" || tags.add.length + tags.remove.length > 0;
  const isPreviewed = preview.state === "finished";
  const isBegun = work.state !== "idle";
  const edited =
    <Value,>(set: (value: Value) => void) =>
    (value: Value) => {
      set(value);
      preview.reset();
    };
  const close = () => onClose(work.found.some(({ change }) => change?.is_change));
  return (
    <Dialog opened onClose={close} size="lg" title={t(`bulk.${kind}`)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isPreviewed) preview.start();
          else if (isGiven) work.start();
        }}
      >
        <Stack gap="md">
          <Text size="sm">{t(`bulk.${kind}_text`, { count: subjects.length })}</Text>
          {kind === "owner" && (
            <Select
              label={t("field.owner")}
              description={t("hint.owner")}
              placeholder={t("owner.nobody")}
              data={owners}
              searchable
              clearable
              disabled={isBegun}
              value={owner}
              onChange={edited(setOwner)}
            />
          )}
          {kind === "tags" &&
            (["add", "remove"] as const).map((which) => (
              <TagsInput
                key={which}
                label={t(`bulk.tags_${which}`)}
                maxTags={TAGS_MAX}
                value={tags[which]}
                disabled={isBegun}
                onChange={edited((some: string[]) => setTags({ ...tags, [which]: some }))}
              />
            ))}
          {!isBegun && <Outcomes steps={preview} total={subjects.length} isPreview />}
          {isBegun && <Outcomes steps={work} total={todo.length} />}
          {isPreviewed && !isBegun && todo.length > 0 && inputs}
          <DialogFooter>
            <Button variant="default" onClick={close}>
              {t(isBegun ? "common:action.close" : "common:action.cancel")}
            </Button>
            {!isPreviewed && preview.state !== "running" && (
              <Button type="submit" disabled={!isReady} data-action="preview">
                {t("common:change.preview")}
              </Button>
            )}
            {isPreviewed && !isBegun && (
              <Button
                type="submit"
                color={confirm ? "red" : undefined}
                disabled={todo.length === 0 || !isGiven}
                data-action="apply"
              >
                {t("bulk.apply", { count: todo.length })}
              </Button>
            )}
          </DialogFooter>
        </Stack>
      </form>
    </Dialog>
  );
}

/** How far it is, and what became of each subject. */
function Outcomes({ steps, total, isPreview = false }: { steps: Steps<Outcome>; total: number; isPreview?: boolean }) {
  const { t } = useTranslation("subjects");
  if (steps.state === "idle") return null;
  const failed = steps.found.filter(({ problem }) => problem !== null).length;
  return (
    <Stack gap="xs">
      {steps.state === "running" && (
        <Group gap="sm" wrap="nowrap">
          <Progress value={(100 * steps.done) / Math.max(1, total)} className="grow" aria-label={t("bulk.progress")} />
          <Text size="sm">
            {steps.done} / {total}
          </Text>
          <Button size="xs" variant="default" onClick={steps.cancel}>
            {t("common:action.stop")}
          </Button>
        </Group>
      )}
      {steps.state === "cancelled" && (
        <Alert color="yellow" title={t("bulk.stopped", { done: steps.done, total })}>
          <Button size="xs" variant="default" onClick={steps.resume}>
            {t("common:action.go_on")}
          </Button>
        </Alert>
      )}
      {steps.state === "failed" && <ProblemAlert error={steps.error} onRetry={steps.resume} />}
      {steps.state === "finished" && (
        <Text size="sm" fw={600} role="status">
          {t(isPreview ? "bulk.previewed" : "bulk.done", { done: steps.found.length - failed, failed })}
        </Text>
      )}
      {steps.found.length > 0 && (
        <div className="outcomes" tabIndex={-1}>
          <Table>
            <Table.Tbody>
              {steps.found.map((outcome) => (
                <Table.Tr key={outcome.subject} data-outcome={outcome.problem ? "failed" : "done"}>
                  <Table.Th scope="row" className="break" fw={500}>
                    {outcome.subject}
                  </Table.Th>
                  <Table.Td>
                    <OutcomeText outcome={outcome} isPreview={isPreview} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Stack>
  );
}

function OutcomeText({ outcome: { change, problem }, isPreview }: { outcome: Outcome; isPreview: boolean }) {
  const { t } = useTranslation("subjects");
  const lineOf = useValueLine();
  if (problem) return <ProblemText error={problem} c="red" />;
  if (!change?.is_change) return <Badge color="gray">{t("common:change.nothing")}</Badge>;
  const changes = differences(change.before, change.after).map(
    ({ name, before, after }) =>
      `${t(`common:field.${name}`, { defaultValue: name })}: ${lineOf(before)} → ${lineOf(after)}`,
  );
  return (
    <Text size="sm">
      {changes.join("; ")}
      {!isPreview && " ✓"}
    </Text>
  );
}
