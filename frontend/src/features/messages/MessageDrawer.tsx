import { Drawer, Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { messageOptions } from "@/features/messages/queries";
import { LinkTo } from "@/ui/LinkTo";
import { MessageView } from "@/ui/message/MessageView";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { useUrlState } from "@/ui/urlState";

/** How a message is named in the address: `?message=main:17`. A broker group's name holds no colon. */
export function keyOf({ broker_group, sequence }: { broker_group: string; sequence: string }): string {
  return `${broker_group}:${sequence}`;
}

/** The message that the address names, beside the list. */
export function MessageDrawer({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const { t: common } = useTranslation();
  const [search, change] = useUrlState();
  const key = search.message;
  return (
    <Drawer
      opened={key !== undefined}
      onClose={() => change({ message: undefined })}
      position="right"
      size="xl"
      title={t("one.title")}
      closeButtonProps={{ "aria-label": common("action.close") }}
    >
      {key !== undefined && <One subject={subject} at={key} />}
    </Drawer>
  );
}

function One({ subject, at }: { subject: string; at: string }) {
  const { t } = useTranslation("messages");
  const { t: common } = useTranslation();
  const cut = at.lastIndexOf(":");
  const brokerGroup = at.slice(0, cut);
  const sequence = at.slice(cut + 1);
  const { data, error, refetch } = useQuery(messageOptions(subject, brokerGroup, sequence));
  if (error) return <ProblemAlert error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loader aria-label={common("state.loading")} />;
  return (
    <MessageView
      message={data}
      facts={[
        [
          t("one.became"),
          <LinkTo
            key="trace"
            inherit
            to="/trace/$subject/$brokerGroup/$sequence"
            params={{ subject, brokerGroup, sequence }}
          >
            {t("one.trace")}
          </LinkTo>,
        ],
      ]}
    />
  );
}
