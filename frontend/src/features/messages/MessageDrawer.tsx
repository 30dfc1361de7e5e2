import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { messageOptions } from "@/features/messages/queries";
import { LinkTo } from "@/ui/links/LinkTo";
import { AddressDrawer } from "@/ui/dialog/SideDrawer";
import { loaded } from "@/ui/page/loaded";
import { MessageView } from "@/ui/message/MessageView";
import { placeOf } from "@/ui/message/place";

/** The message that the address names, beside the list: `?message=main:17`. */
export function MessageDrawer({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  return (
    <AddressDrawer name="message" size="xl" title={t("one.title")}>
      {(key) => <One subject={subject} at={key} />}
    </AddressDrawer>
  );
}

function One({ subject, at }: { subject: string; at: string }) {
  const { t } = useTranslation("messages");
  const { brokerGroup, sequence } = placeOf(at);
  const [data, instead] = loaded(useQuery(messageOptions(subject, brokerGroup, sequence)));
  if (!data) return instead;
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
