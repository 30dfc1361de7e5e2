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

/** Replay or delete letters: first what would happen, then, once it is confirmed, done piece by piece with a way to stop. */
export function WorkDialog({ subject, group, wanted: { action, chosen }, onClose }: Props) {
  const { t } = useTranslation("dead_letters");
  const [to, setTo] = useState<Order["to"]>("group");
  const [isForced, setForced] = useState(false);
  const isDangerous = action === "delete" || chosen.kind === "all";
  const { reason, isGiven, inputs } = useConfirmation({ typed: isDangerous ? group : "" });
  const order: Order = { subject, group, action, chosen, to, isForced, reason };
  const plan = useWork(order);
  const work = useWork(order, plan.found);
  const isPlanning = plan.state === "running";
  const isBusy = isPlanning || work.state === "running";
  const isPlanned = plan.state !== "idle" && !isPlanning;
  const isUseful = plan.state === "finished" && plan.sums.done > 0;
  const close = () => onClose(work.state !== "idle");
  const form = (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (plan.state === "idle") plan.start();
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
                plan.reset();
              }}
            >
              <Stack gap={6} mt={6}>
                {(["group", "subject"] as const).map((value) => (
                  <Radio key={value} value={value} label={t(`to.${value}`, { group })} disabled={isPlanning} />
                ))}
              </Stack>
            </Radio.Group>
            <Checkbox
              label={t("force")}
              description={t("force_hint")}
              checked={isForced}
              disabled={isPlanning}
              onChange={(event) => {
                setForced(event.currentTarget.checked);
                plan.reset();
              }}
            />
          </>
        )}
        {isPlanning && <Running work={plan} total={null} label={t("planning")} />}
        {isPlanned && <Outcome work={plan} action={action} isPlan />}
        {isUseful && inputs}
        {!isUseful && plan.state === "finished" && <Text size="sm">{t("nothing_to_do")}</Text>}
        <DialogFooter>
          <Button variant="default" onClick={close} disabled={isPlanning}>
            {t("common:action.cancel")}
          </Button>
          {plan.state === "idle" && (
            <Button type="submit" data-action="preview">
              {t("common:change.preview")}
            </Button>
          )}
          {isPlanned && plan.state !== "finished" && (
            <Button variant="default" onClick={plan.resume}>
              {t("common:action.go_on")}
            </Button>
          )}
          {isUseful && (
            <Button type="submit" color={isDangerous ? "red" : undefined} disabled={!isGiven} data-action="apply">
              {t(`do.${action}`, { count: plan.sums.done })}
            </Button>
          )}
        </DialogFooter>
      </Stack>
    </form>
  );
  const ended = (
    <Stack>
      <Outcome work={work} action={action} isPlan={false} />
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
        <Running work={work} total={plan.sums.looked_at} label={t("running")} />
      ) : (
        ended
      )}
    </Dialog>
  );
}
