import { Textarea } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { limitsOf } from "@/api/limits";
import { change } from "@/api/requests";
import { brokersKey, OUTDATED, type BrokerGroupDetail, type Doing } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

interface Props {
  group: BrokerGroupDetail;
  doing: Doing;
  onClose: () => void;
}

/** Confirms a change of a broker group, and makes it. */
export function GroupDialog({ group, doing, onClose }: Props) {
  const { t } = useTranslation("brokers");
  const client = useQueryClient();
  const navigate = useNavigate();
  const { name } = group;
  const { action, etag } = doing;
  const [description, setDescription] = useState(group.description);
  const isDangerous = action === "drain" || action === "remove" || action === "read-only";
  return (
    <ChangeDialog
      onClose={onClose}
      title={t(`action.${action}.title`, { name })}
      confirmName={isDangerous ? name : undefined}
      actionLabel={t(`action.${action}.do`)}
      doneMessage={t(`action.${action}.done`, { name })}
      inputs={action === "describe" ? description : ""}
      run={(attempt) => {
        const given = { path: { name }, etag };
        if (action === "remove") return change("delete", "/api/v1/broker-groups/{name}/", attempt, given);
        if (action !== "describe") return change("post", `/api/v1/broker-groups/{name}/${action}/`, attempt, given);
        return change("patch", "/api/v1/broker-groups/{name}/", attempt, { ...given, body: { description } });
      }}
      wordOf={(field, value) =>
        field === "operator_state" ? t(`decided.${String(value)}`, { defaultValue: "" }) || undefined : undefined
      }
      means={action === "describe" ? undefined : t(`action_means.${action}`)}
      refreshes={OUTDATED}
      onDone={() => {
        if (action !== "remove") return;
        void navigate({ to: "/brokers" });
        client.removeQueries({ queryKey: [...brokersKey, "one", name] });
      }}
    >
      {action === "describe" && (
        <Textarea
          label={t("column.description")}
          maxLength={limitsOf("PatchedBrokerGroupChangeRequest", "description").maxLength}
          rows={3}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
      )}
    </ChangeDialog>
  );
}
