import { Checkbox, NativeSelect, PasswordInput, Stack, Textarea, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  ADDRESSES_MAX,
  draftOf,
  headersOf,
  isComplete,
  NEW_CHANNEL,
  SECRET_CHARS,
  toChange,
  toChannel,
} from "@/features/alerts/channelDraft";
import { alertsKey, changeChannel, createChannel, type Channel } from "@/features/alerts/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

/** Make a channel, or change one. URL, secret and headers can be written and never read: left empty they stay. */
export function ChannelDialog({ channel, onClose }: { channel: Channel | null; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  const [draft, setDraft] = useState(() => (channel ? draftOf(channel) : NEW_CHANNEL));
  const set = (changes: Partial<typeof draft>) => setDraft({ ...draft, ...changes });
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={channel ? t("channel.edit", { name: channel.name }) : t("channel.create")}
      actionLabel={t(channel ? "common:action.save" : "common:action.create")}
      doneMessage={t(channel ? "channel.changed" : "channel.created", { name: draft.name })}
      inputs={JSON.stringify(draft)}
      isReady={isComplete(draft, channel === null)}
      run={(attempt) =>
        channel ? changeChannel(channel, toChange(draft), attempt) : createChannel(toChannel(draft), attempt)
      }
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    >
      <Stack gap="sm">
        <TextInput
          label={t("column.name")}
          required
          maxLength={100}
          value={draft.name}
          data-autofocus
          onChange={(event) => set({ name: event.currentTarget.value })}
        />
        <NativeSelect
          label={t("column.kind")}
          disabled={channel !== null}
          value={draft.kind}
          data={(["webhook", "email"] as const).map((value) => ({ value, label: t(`channel.kind.${value}`) }))}
          onChange={(event) => set({ kind: event.currentTarget.value as Channel["kind"] })}
        />
        {draft.kind === "email" ? (
          <Textarea
            label={t("channel.addresses")}
            description={t("channel.addresses_hint", { max: ADDRESSES_MAX })}
            required
            autosize
            minRows={2}
            value={draft.addresses}
            onChange={(event) => set({ addresses: event.currentTarget.value })}
          />
        ) : (
          <>
            <TextInput
              type="url"
              label={t("channel.url")}
              description={channel?.origin ? t("channel.url_kept", { origin: channel.origin }) : t("channel.url_hint")}
              required={channel === null}
              maxLength={1_000}
              autoComplete="off"
              value={draft.url}
              onChange={(event) => set({ url: event.currentTarget.value })}
            />
            <PasswordInput
              label={t("channel.secret")}
              description={t(channel?.has_secret ? "channel.secret_kept" : "channel.secret_hint", SECRET_CHARS)}
              maxLength={SECRET_CHARS.max}
              autoComplete="new-password"
              disabled={draft.dropsSecret}
              value={draft.secret}
              visibilityToggleButtonProps={{ "aria-label": t("channel.secret_show") }}
              onChange={(event) => set({ secret: event.currentTarget.value })}
            />
            {channel?.has_secret && (
              <Checkbox
                label={t("channel.secret_drop")}
                checked={draft.dropsSecret}
                onChange={(event) => set({ dropsSecret: event.currentTarget.checked })}
              />
            )}
            <Textarea
              label={t("channel.headers")}
              description={
                channel?.headers?.length
                  ? t("channel.headers_kept", { names: channel.headers.join(", ") })
                  : t("channel.headers_hint")
              }
              error={headersOf(draft.headers) === null && t("channel.headers_wrong")}
              placeholder="Authorization: Bearer …"
              autosize
              minRows={2}
              value={draft.headers}
              onChange={(event) => set({ headers: event.currentTarget.value })}
            />
          </>
        )}
      </Stack>
    </ChangeDialog>
  );
}
