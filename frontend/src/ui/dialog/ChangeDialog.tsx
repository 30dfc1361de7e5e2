import { Alert, Badge, Button, Code, Group, Loader, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Change } from "@/api/client";
import type { Attempt } from "@/api/requests";
import { differences } from "@/format/values";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { useConfirmation } from "@/ui/dialog/useConfirmation";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { useValueLine } from "@/ui/measure/useValueLine";
import { Table } from "@/ui/table/Table";

const Notes = whenDrawn(async () => (await import("@/ui/dialog/Notes")).Notes, ["reasons", "notes"]);

interface Props<Preview> {
  /** False: closed. Without it the dialog is open as long as it is drawn. */
  opened?: boolean;
  onClose: () => void;
  title: string;
  /** The change, and its dry run. */
  run: (attempt: Attempt) => Promise<Preview>;
  /**
   * The preview. Without it the change is made at once: for what is harmless and easily undone, such as creating a
   * subject.
   */
  show?: (preview: Preview) => ReactNode;
  /** Whether there is anything to do; without it always. */
  isWorthIt?: (preview: Preview) => boolean;
  /** The name to be typed before something dangerous is done. */
  confirmName?: string;
  actionLabel: string;
  /** Inputs of the change, above the preview. */
  children?: ReactNode;
  /** Changes whenever an input does: a preview of other inputs is no preview. */
  inputs?: string;
  /** Whether the inputs can be tried. */
  isReady?: boolean;
  doneMessage: string;
  /** What is out of date after the change. */
  refreshes?: readonly QueryKey[];
  onDone?: (done: Preview) => void;
  /** What the reason is called where it is more than a line of the audit log; false: the change takes none. */
  reasonField?: { label: string; description: string } | false;
}

/**
 * A change in two steps: the API's dry run is shown as a preview, then the change is made. Dangerous ones require
 * typing the name. An error leaves the dialog open and says what to try.
 */
export function PreviewDialog<Preview>({ opened = true, ...props }: Props<Preview>) {
  return (
    <Dialog opened={opened} onClose={props.onClose} title={props.title} size="lg">
      {opened && <Steps {...props} />}
    </Dialog>
  );
}

/** What comes below a long form would not be seen. */
function intoView(element: HTMLElement | null) {
  element?.scrollIntoView({ block: "center" });
}

function Steps<Preview>({
  onClose,
  run,
  show,
  isWorthIt,
  confirmName,
  actionLabel,
  children,
  inputs = "",
  isReady = true,
  doneMessage,
  refreshes = [],
  onDone,
  reasonField,
}: Props<Preview>) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const { reason, isGiven, inputs: confirmation } = useConfirmation({ typed: confirmName, reasonField });
  const [previewed, setPreviewed] = useState<{ preview: Preview; inputs: string } | null>(null);
  const calculation = useMutation({
    mutationFn: () => run({ dryRun: true, reason }),
    onSuccess: (preview) => setPreviewed({ preview, inputs }),
  });
  const change = useMutation({
    mutationFn: () => run({ dryRun: false, reason }),
    onSuccess: (done) => {
      notifications.show({ message: doneMessage, color: "teal" });
      for (const queryKey of refreshes) void client.invalidateQueries({ queryKey });
      onDone?.(done);
      onClose();
    },
  });
  const hasInputs = Boolean(children);
  const isDirect = show === undefined;
  const { mutate: calculate } = calculation;
  // Without inputs the preview is calculated at once.
  useEffect(() => {
    if (!hasInputs && !isDirect) calculate();
  }, [hasInputs, isDirect, calculate]);
  const current = previewed?.inputs === inputs ? previewed.preview : null;
  // What the button does next.
  const isApplied = isDirect || current !== null;
  const isUseful = current !== null && (isWorthIt?.(current) ?? true);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isDirect) change.mutate();
        else if (current === null) calculation.mutate();
        else if (isGiven && isUseful && !change.isPending) change.mutate();
      }}
    >
      <Stack gap="md">
        {children}
        {calculation.isPending && (
          <Group gap="xs">
            <Loader size="xs" aria-hidden />
            <Text size="sm">{t("change.previewing")}</Text>
          </Group>
        )}
        {calculation.isError && (
          <div ref={intoView}>
            <ProblemAlert error={calculation.error} onRetry={() => calculation.mutate()} />
          </div>
        )}
        {current !== null && (
          <Alert
            ref={intoView}
            color={confirmName ? "orange" : "blue"}
            title={t("change.what_happens")}
            data-preview=""
          >
            {show?.(current)}
          </Alert>
        )}
        {(isDirect || isUseful) && confirmation}
        {change.isError && (
          <div ref={intoView}>
            <ProblemAlert error={change.error} />
          </div>
        )}
        <DialogFooter>
          <Button variant="default" onClick={onClose}>
            {t("action.cancel")}
          </Button>
          <Button
            type="submit"
            color={current !== null && confirmName ? "red" : undefined}
            disabled={current === null ? !isReady : !isGiven || !isUseful}
            loading={(isApplied ? change : calculation).isPending}
            data-action={isApplied ? "apply" : "preview"}
          >
            {isApplied ? actionLabel : t("change.preview")}
          </Button>
        </DialogFooter>
      </Stack>
    </form>
  );
}

/** How a plain change is put into words, where the API's names are not those of the page. */
interface Words {
  /** What the change does, above the fields. */
  means?: string | undefined;
  /** What is changed, where the API names it by a number. */
  affects?: string;
  /** What else there is to know before it is done, below the fields. */
  also?: ReactNode;
  /** Fields that say nothing here. */
  hides?: readonly string[];
  /** A field's value in words; undefined: as it is. */
  wordOf?: (field: string, value: unknown) => string | undefined;
}

/** `PreviewDialog` for what answers in the shape of every plain change. */
export function ChangeDialog({ means, affects, also, hides, wordOf, ...props }: Omit<Props<Change>, "show"> & Words) {
  return (
    <PreviewDialog<Change>
      isWorthIt={(preview) => preview.is_change}
      {...props}
      show={(preview) => (
        <Stack gap="xs">
          {means && <Text size="sm">{means}</Text>}
          <ChangePreview preview={preview} affects={affects} hides={hides} wordOf={wordOf} />
          {also}
        </Stack>
      )}
    />
  );
}

/** The fields that differ, with the values before and after, and notes of the API. */
function ChangePreview({ preview, affects, hides = [], wordOf }: { preview: Change } & Words) {
  const { t } = useTranslation();
  const lineOf = useValueLine();
  const shown = (name: string, value: unknown) => wordOf?.(name, value) ?? lineOf(value);
  const fields = differences(preview.before, preview.after).filter(({ name }) => !hides.includes(name));
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Text size="sm">{t("change.target")}</Text>
        <Code>{affects ?? preview.target}</Code>
        {!preview.is_change && <Badge color="gray">{t("change.nothing")}</Badge>}
      </Group>
      {fields.length > 0 && (
        <Table withTableBorder>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("change.field")}</Table.Th>
              <Table.Th>{t("change.before")}</Table.Th>
              <Table.Th>{t("change.after")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {fields.map(({ name, before, after }) => (
              <Table.Tr key={name}>
                <Table.Th scope="row" data-field={name}>
                  {t(`field.${name}`, { defaultValue: name.replaceAll("_", " ") })}
                </Table.Th>
                <Table.Td className="break">{shown(name, before)}</Table.Td>
                <Table.Td className="break">{shown(name, after)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      {preview.notes.length > 0 && <Notes notes={preview.notes} />}
    </Stack>
  );
}
