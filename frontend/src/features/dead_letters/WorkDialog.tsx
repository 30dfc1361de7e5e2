import { Button, Checkbox, Radio, Stack, Text, TextInput } from "@mantine/core";
import type { TFunction } from "i18next";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { faultOf, type Edit } from "@/features/dead_letters/edit";
import { EditFields } from "@/features/dead_letters/EditFields";
import type { Action, Chosen, Order } from "@/features/dead_letters/work";
import { Outcome, Running, useWork } from "@/features/dead_letters/WorkView";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { useConfirmation } from "@/ui/dialog/useConfirmation";

interface Props {
  subject: string;
  group: string;
  /** `edit`: the one dead letter that is chosen, to be edited before it is replayed. */
  wanted: { action: Action; chosen: Chosen; edit?: Edit | undefined };
  /** `isDone`: whether anything may have been changed. */
  onClose: (isDone: boolean) => void;
}

/** Replay or delete dead letters: previewed, then, once it is confirmed, done piece by piece with a way to stop. */
export function WorkDialog({ subject, group, wanted, onClose }: Props) {
  const { t } = useTranslation("dead_letters");
  const { action, chosen } = wanted;
  const [to, setTo] = useState<Order["to"]>("group");
  const [otherSubject, setOtherSubject] = useState("");
  const [edit, setEdit] = useState(wanted.edit ?? null);
  const [isForced, setForced] = useState(false);
  const isDangerous = action === "delete" || chosen.kind === "all";
  const { reason, isGiven, inputs } = useConfirmation({ typed: isDangerous ? group : "" });
  const order: Order = { subject, group, action, chosen, to, otherSubject, edit, isForced, reason };
  const preview = useWork(order);
  const work = useWork(order, preview.found);
  const isPreviewing = preview.state === "running";
  const isBusy = isPreviewing || work.state === "running";
  const isPreviewed = preview.state !== "idle" && !isPreviewing;
  const isReady = (to !== "other" || otherSubject.trim() !== "") && (edit === null || faultOf(edit) === null);
  const isUseful = preview.state === "finished" && preview.sums.done > 0;
  const close = () => onClose(work.state !== "idle");
  const form = (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (preview.state === "idle") {
          if (isReady) preview.start();
        } else if (isUseful && isGiven) work.start();
      }}
    >
      <Stack>
        {action === "replay" && (
          <>
            {edit && (
              <EditFields
                edit={edit}
                disabled={isPreviewing}
                onChange={(changed) => {
                  setEdit(changed);
                  preview.reset();
                }}
              />
            )}
            <Radio.Group
              label={t("to.label")}
              value={to}
              onChange={(value) => {
                setTo(value);
                preview.reset();
              }}
            >
              <Stack gap={6} mt={6}>
                {(["group", "subject", "other"] as const).map((value) => (
                  <Radio key={value} value={value} label={t(`to.${value}`, { group })} disabled={isPreviewing} />
                ))}
              </Stack>
            </Radio.Group>
            {to === "other" && (
              <TextInput
                label={t("to.other_subject")}
                required
                disabled={isPreviewing}
                value={otherSubject}
                onChange={(event) => {
                  setOtherSubject(event.currentTarget.value);
                  preview.reset();
                }}
              />
            )}
            <Checkbox
              label={t("force")}
              description={t("force_hint")}
              checked={isForced}
              disabled={isPreviewing}
              onChange={(event) => {
                setForced(event.currentTarget.checked);
                preview.reset();
              }}
            />
          </>
        )}
        {isPreviewing && <Running work={preview} total={null} label={t("previewing")} />}
        {isPreviewed && <Outcome work={preview} action={action} isPreview />}
        {isUseful && inputs}
        {!isUseful && preview.state === "finished" && <Text size="sm">{t("nothing_to_do")}</Text>}
        <DialogFooter>
          <Button variant="default" onClick={close} disabled={isPreviewing}>
            {t("common:action.cancel")}
          </Button>
          {preview.state === "idle" && (
            <Button type="submit" disabled={!isReady} data-action="preview">
              {t("common:change.preview")}
            </Button>
          )}
          {isPreviewed && preview.state !== "finished" && (
            <Button variant="default" onClick={preview.resume}>
              {t("common:action.go_on")}
            </Button>
          )}
          {isUseful && (
            <Button type="submit" color={isDangerous ? "red" : undefined} disabled={!isGiven} data-action="apply">
              {t(`do.${action}`, { count: preview.sums.done })}
            </Button>
          )}
        </DialogFooter>
      </Stack>
    </form>
  );
  const ended = (
    <Stack>
      <Outcome work={work} action={action} isPreview={false} />
      <DialogFooter>
        {work.state !== "finished" && (
          <Button variant="default" onClick={work.resume}>
            {t("common:action.go_on")}
          </Button>
        )}
        <Button onClick={close}>{t("common:action.close")}</Button>
      </DialogFooter>
    </Stack>
  );
  return (
    <Dialog
      opened
      onClose={close}
      size="lg"
      title={titleOf(t, wanted)}
      closeOnClickOutside={!isBusy}
      closeOnEscape={!isBusy}
      withCloseButton={!isBusy}
    >
      {work.state === "idle" ? (
        form
      ) : work.state === "running" ? (
        <Running work={work} total={preview.sums.looked_at} label={t("running")} />
      ) : (
        ended
      )}
    </Dialog>
  );
}

function titleOf(t: TFunction<"dead_letters">, { action, chosen, edit }: Props["wanted"]): string {
  if (edit) return t("title.edit");
  return chosen.kind === "all" ? t(`title.${action}_all`) : t(`title.${action}`, { count: chosen.keys.length });
}
