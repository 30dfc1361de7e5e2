import { Alert, Textarea } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Change } from "@/api/client";
import { limitsOf } from "@/api/limits";
import { asProblem } from "@/api/problem";
import type { Attempt } from "@/api/requests";
import { OUTDATED } from "@/features/brokers/queries";
import { isRecord, textOf } from "@/format/values";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Another loss was accepted than there is. */
const NOT_ACCEPTED = "broker_group.loss_not_accepted";

interface Props {
  title: string;
  about: string;
  actionLabel: string;
  doneMessage: string;
  /** The request, whose schema limits the reason. */
  request: "LostGroupRequest" | "PromotionRequest";
  /** The change; the loss is null in a dry run. */
  run: (attempt: Attempt, loss: string | null) => Promise<Change>;
  /** Where the dry run returns the loss. */
  lossField: string;
  /** What the loss means. */
  meaning: (loss: string) => string;
  /** Further inputs, and whether they can be tried. */
  children?: ReactNode;
  inputs?: string;
  isReady?: boolean;
  onClose: () => void;
  onDone?: () => void;
}

/** A change by which messages may be lost. The dry run returns the loss, and the operator types it. */
export function LossDialog(props: Props) {
  const { title, about, actionLabel, doneMessage, run, lossField, meaning, isReady = true, onClose, onDone } = props;
  const { t } = useTranslation("brokers");
  const [reason, setReason] = useState("");
  const [loss, setLoss] = useState<string | null>(null);
  const [rejected, setRejected] = useState(0);

  async function attempted({ dryRun }: Attempt): Promise<Change> {
    try {
      const done = await run({ dryRun, reason: reason.trim() }, dryRun ? null : loss);
      if (dryRun) setLoss(isRecord(done.after) ? textOf(done.after[lossField]) : null);
      return done;
    } catch (error) {
      // The number has changed since the preview: the next step is another preview.
      if (asProblem(error).code === NOT_ACCEPTED) setRejected(rejected + 1);
      throw error;
    }
  }

  return (
    <ChangeDialog
      onClose={onClose}
      title={title}
      confirmName={loss ?? undefined}
      actionLabel={actionLabel}
      doneMessage={doneMessage}
      inputs={JSON.stringify([props.inputs, reason, rejected])}
      isReady={isReady && reason.trim() !== ""}
      reasonField={false}
      means={loss === null ? undefined : meaning(loss)}
      run={attempted}
      refreshes={OUTDATED}
      onDone={onDone}
    >
      <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={t("promote.warning")}>
        {about}
      </Alert>
      {props.children}
      <Textarea
        label={t("loss.why")}
        required
        maxLength={limitsOf(props.request, "reason").maxLength}
        rows={2}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
