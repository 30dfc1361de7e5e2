import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { LossDialog } from "@/features/brokers/LossDialog";
import { brokersKey, type BrokerGroupDetail } from "@/features/brokers/queries";

/** Remove a group that is lost. */
export function RemoveLostDialog({
  group: { name, kind },
  etag,
  onClose,
}: {
  group: BrokerGroupDetail;
  etag: string | null;
  onClose: () => void;
}) {
  const { t } = useTranslation("brokers");
  const client = useQueryClient();
  const navigate = useNavigate();
  return (
    <LossDialog
      title={t("remove_lost.title", { name })}
      about={t("remove_lost.about")}
      actionLabel={t("remove_lost.do")}
      doneMessage={t("action.remove.done", { name })}
      request="LostGroupRequest"
      run={(attempt, loss) =>
        change("post", "/api/v1/broker-groups/{name}/remove-lost/", attempt, {
          path: { name },
          etag,
          body: { ...(loss !== null && { accept_loss: loss }) },
        })
      }
      lossField="at_risk"
      meaning={(loss) => t(`remove_lost.at_risk_${kind}`, { loss })}
      onClose={onClose}
      onDone={() => {
        void navigate({ to: "/brokers" });
        client.removeQueries({ queryKey: [...brokersKey, "one", name] });
      }}
    />
  );
}
