import { Button, Group } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconPencil, IconSend } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { useMayOn } from "@/api/owner";
import { obstacleOf } from "@/features/messages/draft";
import { neighboursOf, useNeighbourKeys } from "@/features/messages/neighbours";
import { messageOptions, type Message } from "@/features/messages/queries";
import { LinkTo } from "@/ui/links/LinkTo";
import { AddressDrawer } from "@/ui/dialog/SideDrawer";
import { useUrlState } from "@/ui/links/urlState";
import { IconButton } from "@/ui/menu/buttons";
import { loaded } from "@/ui/page/loaded";
import { MessageView } from "@/ui/message/MessageView";
import { placeOf } from "@/ui/message/place";

interface Props {
  subject: string;
  /** The rows of the list beside it. */
  keys: readonly string[];
  /** Without them nothing can be sent. */
  onEdit?: (message: Message) => void;
  onResend?: (key: string) => void;
}

/** The message that the address names, beside the list: `?message=main:17`. */
export function MessageDrawer(props: Props) {
  const { t } = useTranslation("messages");
  return (
    <AddressDrawer name="message" size="xl" title={t("one.title")}>
      {(key) => <One {...props} at={key} />}
    </AddressDrawer>
  );
}

function One({ subject, at, keys, onEdit, onResend }: Props & { at: string }) {
  const { t } = useTranslation("messages");
  const [, change] = useUrlState();
  const mayOn = useMayOn(subject);
  const neighbours = neighboursOf(keys, at);
  const go = (key: string) => change({ message: key });
  useNeighbourKeys(neighbours, go);
  const { brokerGroup, sequence } = placeOf(at);
  const [data, instead] = loaded(useQuery(messageOptions(subject, brokerGroup, sequence)));
  const { previous, next } = neighbours;
  const obstacle = data && obstacleOf(data);
  const isPartlyMasked = (data?.masked_values.length ?? 0) > 0;
  const canSend = data?.properties != null && mayOn("send") && mayOn("read_messages");
  return (
    <>
      <Group gap="xs" mb="sm" className="message-steps">
        <IconButton
          icon={IconChevronUp}
          label={t("one.previous")}
          disabled={previous === undefined}
          onClick={() => previous !== undefined && go(previous)}
        />
        <IconButton
          icon={IconChevronDown}
          label={t("one.next")}
          disabled={next === undefined}
          onClick={() => next !== undefined && go(next)}
        />
        <span className="grow" />
        {canSend && onEdit && (
          <Button
            size="sm"
            variant="default"
            leftSection={<IconPencil size={16} aria-hidden />}
            disabled={obstacle !== undefined}
            title={obstacle && t(obstacle)}
            onClick={() => onEdit(data)}
          >
            {t("one.edit")}
          </Button>
        )}
        {canSend && onResend && (
          <Button
            size="sm"
            variant="default"
            leftSection={<IconSend size={16} aria-hidden />}
            disabled={isPartlyMasked}
            title={isPartlyMasked ? t("send.masked") : undefined}
            onClick={() => onResend(at)}
          >
            {t("one.resend")}
          </Button>
        )}
      </Group>
      {data ? (
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
      ) : (
        instead
      )}
    </>
  );
}
