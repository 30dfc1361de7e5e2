import { Button, Checkbox, Radio, Stack, Text, TextInput } from "@mantine/core";
import type { TFunction } from "i18next";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useWork, type Work } from "@/features/dead_letters/useWork";
import type { Action, Chosen, Order } from "@/features/dead_letters/work";
import { Outcome, Running } from "@/features/dead_letters/WorkView";
import { Dialog, DialogFooter } from "@/ui/Dialog";

interface Props {
  subject: string;
  group: string;
  /** null: closed. */
  wanted: { action: Action; chosen: Chosen } | null;
  /** `isDone`: whether anything may have been changed. */
  onClose: (isDone: boolean) => void;
}

/** Replay or delete letters: first what would happen, then, once it is confirmed, done piece by piece with a way to stop. */
export function WorkDialog(props: Props) {
  const { wanted, onClose } = props;
  const { t } = useTranslation("dead_letters");
  const plan = useWork(true);
  const work = useWork(false);
  const isBusy = plan.state === "running" || work.state === "running";
  const close = () => {
    const isDone = work.state !== "idle";
    plan.reset();
    work.reset();
    onClose(isDone);
  };
  return (
    <Dialog
      opened={wanted !== null}
      onClose={close}
      size="lg"
      title={wanted ? titleOf(wanted, t) : ""}
      closeOnClickOutside={!isBusy}
      closeOnEscape={!isBusy}
      withCloseButton={!isBusy}
    >
      {wanted && <Steps {...props} wanted={wanted} plan={plan} work={work} close={close} />}
    </Dialog>
  );
}

function titleOf({ action, chosen }: NonNullable<Props["wanted"]>, t: TFunction<"dead_letters">): string {
  return chosen.kind === "all" ? t(`title.${action}_all`) : t(`title.${action}`, { count: chosen.keys.length });
}

type StepsProps = Omit<Props, "wanted" | "onClose"> & {
  wanted: NonNullable<Props["wanted"]>;
  plan: Work;
  work: Work;
  close: () => void;
};

function Steps({ subject, group, wanted, plan, work, close }: StepsProps) {
  const { t } = useTranslation("dead_letters");
  const [to, setTo] = useState<Order["to"]>("group");
  const [isForced, setForced] = useState(false);
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const { action, chosen } = wanted;
  const order: Order = { subject, group, action, chosen, to, isForced, reason };
  const isDangerous = action === "delete" || chosen.kind === "all";
  if (work.state !== "idle") {
    return (
      <Stack>
        {work.state === "running" ? (
          <Running work={work} total={plan.sums.looked_at} label={t("running")} />
        ) : (
          <>
            <Outcome work={work} action={action} isPlan={false} />
            <DialogFooter>
              {work.state !== "finished" && (
                <Button variant="default" onClick={work.resume}>
                  {t("common:action.go_on")}
                </Button>
              )}
              <Button onClick={close}>{t("common:action.close")}</Button>
            </DialogFooter>
          </>
        )}
      </Stack>
    );
  }
  const isPlanned = plan.state !== "idle" && plan.state !== "running";
  const isUseful = plan.state === "finished" && plan.sums.done > 0;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (plan.state === "idle") plan.start(order);
        else if (isUseful && (!isDangerous || typed === group)) work.start(order);
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
                  <Radio
                    key={value}
                    value={value}
                    label={t(`to.${value}`, { group })}
                    disabled={plan.state === "running"}
                  />
                ))}
              </Stack>
            </Radio.Group>
            <Checkbox
              label={t("force")}
              description={t("force_hint")}
              checked={isForced}
              disabled={plan.state === "running"}
              onChange={(event) => {
                setForced(event.currentTarget.checked);
                plan.reset();
              }}
            />
          </>
        )}
        {plan.state === "running" && <Running work={plan} total={null} label={t("planning")} />}
        {isPlanned && <Outcome work={plan} action={action} isPlan />}
        {isUseful && (
          <>
            <TextInput
              label={t("common:change.reason")}
              description={t("common:change.reason_hint")}
              maxLength={500}
              value={reason}
              onChange={(event) => setReason(event.currentTarget.value)}
            />
            {isDangerous && (
              <TextInput
                label={t("common:change.type_name", { name: group })}
                value={typed}
                autoComplete="off"
                spellCheck={false}
                data-confirm=""
                onChange={(event) => setTyped(event.currentTarget.value)}
              />
            )}
          </>
        )}
        {isPlanned && !isUseful && plan.state === "finished" && <Text size="sm">{t("nothing_to_do")}</Text>}
        <DialogFooter>
          <Button variant="default" onClick={close} disabled={plan.state === "running"}>
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
            <Button
              type="submit"
              color={isDangerous ? "red" : undefined}
              disabled={isDangerous && typed !== group}
              data-action="apply"
            >
              {t(`do.${action}`, { count: plan.sums.done })}
            </Button>
          )}
        </DialogFooter>
      </Stack>
    </form>
  );
}
