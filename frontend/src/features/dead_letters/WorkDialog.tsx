import { Button, Checkbox, Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Action, Chosen, Order } from "@/features/dead_letters/work";
import { Outcome, Running, useWork } from "@/features/dead_letters/WorkView";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { useConfirmation } from "@/ui/dialog/useConfirmation";

interface Props {
  subject: string;
  group: string;
  wanted: { action: Action; chosen: Chosen };
  /** `isDone`: whether anything may have been changed. */
  onClose: (isDone: boolean) => void;
}

/** Replay or delete dead letters: previewed, then, once it is confirmed, done piece by piece with a way to stop. */
export function WorkDialog({ subject, group, wanted: { action, chosen }, onClose }: Props) {
  const { t } = useTranslation("dead_letters");
  const [to, setTo] = useState<Order["to"]>("group");
  const [isForced, setForced] = useState(false);
  const isDangerous = action === "delete" || chosen.kind === "all";
  const { reason, isGiven, inputs } = useConfirmation({ typed: isDangerous ? group : "" });
  const order: Order = { subject, group, action, chosen, to, isForced, reason };
  const preview = useWork(order);
  const work = useWork(order, preview.found);
  const isPreviewing = preview.state === "running";
  const isBusy = isPreviewing || work.state === "running";
  const isPreviewed = preview.state !== "idle" && !isPreviewing;
  const isUseful = preview.state === "finished" && preview.sums.done > 0;
  const close = () => onClose(work.state !== "idle");
  const form = (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (preview.state === "idle") preview.start();
        else if (isUseful && isGiven) work.start();
      }}
    >
      <Stack>
        {action === "replay" && (
          <>
            <Radio.Group
              label={t("to.label")}
              value={to}
              onChange={(value) => {
                setTo(value);
                preview.reset();
              }}
            >
              <Stack gap={6} mt={6}>
                {(["group", "subject"] as const).map((value) => (
                  <Radio key={value} value={value} label={t(`to.${value}`, { group })} disabled={isPreviewing} />
                ))}
              </Stack>
            </Radio.Group>
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
            <Button type="submit" data-action="preview">
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
      title={chosen.kind === "all" ? t(`title.${action}_all`) : t(`title.${action}`, { count: chosen.keys.length })}
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
