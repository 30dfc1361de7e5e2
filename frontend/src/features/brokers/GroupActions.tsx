import { Button, Textarea } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { memo, useState } from "react";
import { useTranslation } from "react-i18next";
import { limitsOf } from "@/api/limits";
import { useMay } from "@/api/me";
import { change } from "@/api/requests";
import type { GroupVerdict } from "@/features/brokers/cluster";
import { brokersKey, OUTDATED, type BrokerGroupDetail, type Decision } from "@/features/brokers/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

type Action = Decision | "describe" | "remove";

/** What is being done, to which version of the group: the page goes on refreshing meanwhile. */
interface Doing {
  action: Action;
  etag: string | null;
}

/** What can be done with a group, for whoever may. */
export const GroupActions = memo(function GroupActions({
  group,
  verdict,
  etag,
}: {
  group: BrokerGroupDetail;
  verdict: GroupVerdict;
  etag: string | null;
}) {
  const { t } = useTranslation("brokers");
  const may = useMay();
  const [doing, setDoing] = useState<Doing | null>(null);
  if (!may("change_cluster")) return null;
  const { operator_state: state, subjects } = group;
  const isApproved = state !== "unapproved";
  const mayBeRemoved = subjects === 0 && (verdict === "offline" || !isApproved);
  const button = (action: Action, colour?: string) => (
    <Button key={action} variant="default" c={colour} onClick={() => setDoing({ action, etag })} data-do={action}>
      {t(`action.${action}.open`)}
    </Button>
  );
  return (
    <>
      {button("describe")}
      {!isApproved && button("approve")}
      {isApproved && state !== "normal" && button("writable")}
      {isApproved && state !== "read_only" && button("read-only")}
      {isApproved && state !== "draining" && button("drain")}
      <Button
        data-hint={mayBeRemoved ? undefined : t(subjects > 0 ? "remove_not_empty" : "remove_not_stopped")}
        variant="default"
        data-disabled={!mayBeRemoved || undefined}
        aria-disabled={!mayBeRemoved}
        onClick={() => mayBeRemoved && setDoing({ action: "remove", etag })}
        data-do="remove"
      >
        {t("action.remove.open")}
      </Button>
      {doing && <Dialog group={group} doing={doing} onClose={() => setDoing(null)} />}
    </>
  );
});

function Dialog({ group, doing, onClose }: { group: BrokerGroupDetail; doing: Doing; onClose: () => void }) {
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
