import "@/features/messages/messages.css";
import { Alert, Button, Group, SegmentedControl, Stack } from "@mantine/core";
import { IconSend } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { placeOptions, useMayOn } from "@/api/owner";
import { Browse } from "@/features/messages/Browse";
import { MessageDrawer } from "@/features/messages/MessageDrawer";
import { messagesKey, type Receipt } from "@/features/messages/queries";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn, whenOpened } from "@/ui/dialog/whenOpened";

const SearchView = whenDrawn(async () => (await import("@/features/messages/SearchView")).SearchView);
const loadSend = () => import("@/features/messages/SendDialog");
const SendDialog = whenOpened(async () => (await loadSend()).SendDialog);
const Sent = whenDrawn(async () => (await loadSend()).Sent);

/** The stored messages of a subject: browse, search, open one, send a test message. */
export default function MessagesTab({ subject }: { subject: string }) {
  const { t } = useTranslation("messages");
  const [search, change] = useUrlState();
  const mayOn = useMayOn(subject);
  const { data: place } = useQuery(placeOptions(subject));
  const client = useQueryClient();
  const [receipt, setReceipt] = useState<Receipt | null>(null);
  const view = search.view === "search" ? "search" : "browse";
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <SegmentedControl
          aria-label={t("view.label")}
          value={view}
          onChange={(next) => change({ view: next === "browse" ? undefined : next })}
          data={[
            { value: "browse", label: t("view.browse") },
            { value: "search", label: t("view.search") },
          ]}
        />
        {mayOn("send") && (
          <Button
            leftSection={<IconSend size={16} aria-hidden />}
            disabled={place?.isArchived}
            title={place?.isArchived ? t("send.archived") : undefined}
            onClick={() => change({ do: "send" })}
          >
            {t("send.open")}
          </Button>
        )}
      </Group>
      {receipt && <Sent receipt={receipt} onClose={() => setReceipt(null)} />}
      {view === "browse" && <Browse subject={subject} />}
      {view === "search" && place && !mayOn("read_messages") && (
        <Alert color="gray" title={t("search.forbidden")}>
          {t("search.forbidden_why")}
        </Alert>
      )}
      {view === "search" && mayOn("read_messages") && <SearchView subject={subject} />}
      <MessageDrawer subject={subject} />
      <SendDialog
        subject={subject}
        opened={search.do === "send" && mayOn("send")}
        onClose={() => change({ do: undefined })}
        onSent={(sent) => {
          setReceipt(sent);
          void client.invalidateQueries({ queryKey: messagesKey(subject) });
        }}
      />
    </Stack>
  );
}
