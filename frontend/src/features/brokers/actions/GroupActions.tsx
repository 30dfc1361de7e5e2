import { Button } from "@mantine/core";
import { memo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import type { GroupVerdict } from "@/features/brokers/topology/cluster";
import type { BrokerGroupDetail, Doing, GroupAction } from "@/features/brokers/queries";
import { whenDrawn } from "@/ui/dialog/whenOpened";

/** Loaded when it opens. */
const GroupDialog = whenDrawn(async () => (await import("@/features/brokers/actions/GroupDialog")).GroupDialog);

const RemoveLostDialog = whenDrawn(
  async () => (await import("@/features/brokers/actions/RemoveLostDialog")).RemoveLostDialog,
);

/** The buttons that change a group, for users with the permission. */
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
  const [lostTag, setLostTag] = useState<{ etag: string | null } | null>(null);
  if (!may("change_cluster")) return null;
  const { operator_state: state, subjects } = group;
  const isApproved = state !== "unapproved";
  const mayBeRemoved = subjects === 0 && (verdict === "offline" || !isApproved);
  const button = (action: GroupAction, colour?: string) => (
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
      {isApproved && verdict === "offline" && (
        <Button variant="default" c="red" onClick={() => setLostTag({ etag })} data-do="remove-lost">
          {t("remove_lost.open")}
        </Button>
      )}
      {lostTag && <RemoveLostDialog group={group} etag={lostTag.etag} onClose={() => setLostTag(null)} />}
      {doing && <GroupDialog group={group} doing={doing} onClose={() => setDoing(null)} />}
    </>
  );
});
