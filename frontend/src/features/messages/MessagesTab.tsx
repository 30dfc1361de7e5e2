import "@/features/messages/messages.css";
import { limit } from "@/api/limits";
import { Alert, Button, Group, SegmentedControl, Stack } from "@mantine/core";
import { IconSend } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { placeOptions, useMayOn } from "@/api/owner";
import { Browse } from "@/features/messages/Browse";
import { MessageDrawer } from "@/features/messages/MessageDrawer";
import { messagesKey, type Message, type Receipt } from "@/features/messages/queries";
import { placeKey } from "@/ui/message/place";
import { useUrlState } from "@/ui/links/urlState";
import { IconButton } from "@/ui/menu/buttons";
import { whenDrawn, whenOpened } from "@/ui/dialog/whenOpened";

/** Messages that are sent again at once, at most. */
const RESEND_MAX = limit("ResendingRequest", "messages", "maxItems");

const SearchView = whenDrawn(async () => (await import("@/features/messages/SearchView")).SearchView);
const loadSend = () => import("@/features/messages/SendDialog");
const SendDialog = whenOpened(async () => (await loadSend()).SendDialog);
const Sent = whenDrawn(async () => (await loadSend()).Sent);
const ResendDialog = whenOpened(async () => (await import("@/features/messages/ResendDialog")).ResendDialog);

const NONE: ReadonlySet<string> = new Set();

/** The stored messages of a subject: browse, search, open one, send one, send some again. */
export default function MessagesTab({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const [search, change] = useUrlState();
  const mayOn = useMayOn(subject);
  const { data: place } = useQuery(placeOptions(subject));
  const client = useQueryClient();
  /** The stored message of which an edited copy is sent; a new message is one that the address asks for. */
  const [edited, setEdited] = useState<Message | null>(null);
  const [resending, setResending] = useState<readonly string[]>([]);
  const [receipt, setReceipt] = useState<Receipt | null>(null);
  const [selected, setSelected] = useState(NONE);
  const [keys, setKeys] = useState<readonly string[]>([]);
  const view = search.view === "search" ? "search" : "browse";
  const refresh = () => void client.invalidateQueries({ queryKey: messagesKey(subject) });
  const canResend = mayOn("send") && mayOn("read_messages");
  const views = (
    <SegmentedControl
      size="sm"
      aria-label={t("view.label")}
      value={view}
      onChange={(next) => change({ view: next === "browse" ? undefined : next })}
      data={[
        { value: "browse", label: t("view.browse") },
        { value: "search", label: t("view.search") },
      ]}
    />
  );
  const actions = (
    <>
      {selected.size > 0 && (
        <Button
          size="sm"
          variant="light"
          disabled={selected.size > RESEND_MAX}
          title={selected.size > RESEND_MAX ? t("resend.too_many", { max: RESEND_MAX }) : undefined}
          onClick={() => setResending([...selected])}
        >
          {t("resend.open", { count: selected.size })}
        </Button>
      )}
      {mayOn("send") && (
        <IconButton
          icon={IconSend}
          label={t(place?.isArchived ? "send.archived" : "send.open")}
          disabled={place?.isArchived ?? false}
          onClick={() => change({ do: "send" })}
        />
      )}
    </>
  );
  return (
    <Stack gap="xs">
      {receipt && <Sent receipt={receipt} onClose={() => setReceipt(null)} />}
      {view === "browse" ? (
        <Browse
          subject={subject}
          selection={canResend ? { selected, onChange: setSelected } : undefined}
          onRows={setKeys}
          lead={views}
          actions={actions}
        />
      ) : (
        <Group justify="space-between">
          {views}
          {actions}
        </Group>
      )}
      {view === "search" && place && !mayOn("read_messages") && (
        <Alert color="gray" title={t("search.forbidden")}>
          {t("search.forbidden_why")}
        </Alert>
      )}
      {view === "search" && mayOn("read_messages") && <SearchView subject={subject} onRows={setKeys} />}
      <MessageDrawer subject={subject} keys={keys} onEdit={setEdited} onResend={(key) => setResending([key])} />
      <SendDialog
        key={edited ? placeKey(edited) : "new"}
        subject={subject}
        origin={edited}
        opened={edited !== null || (search.do === "send" && mayOn("send"))}
        onClose={() => {
          setEdited(null);
          change({ do: undefined });
        }}
        onSent={(sent) => {
          setReceipt(sent);
          refresh();
        }}
      />
      <ResendDialog
        subject={subject}
        keys={resending}
        opened={resending.length > 0}
        onClose={() => setResending([])}
        onDone={() => {
          setSelected(NONE);
          refresh();
        }}
      />
    </Stack>
  );
}
