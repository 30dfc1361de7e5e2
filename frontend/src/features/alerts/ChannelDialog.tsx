import { Checkbox, NativeSelect, PasswordInput, SegmentedControl, Stack, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { limit } from "@/api/limits";
import { change } from "@/api/requests";
import {
  CHANNEL_KINDS,
  type ChannelDraft,
  draftOf,
  FIELDS,
  headersOf,
  isComplete,
  NEW_CHANNEL,
  toChange,
  toChannel,
} from "@/features/alerts/channelDraft";
import { alertsKey } from "@/api/alerts";
import { changeChannel, type Channel } from "@/features/alerts/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { Labelled } from "@/ui/page/Labelled";
import { useLanguage } from "@/ui/preferences";

const ADDRESSES_MAX = limit("NewAlertChannelRequest", "addresses", "maxItems");
const SECRET_CHARS = {
  min: limit("NewAlertChannelRequest", "secret", "minLength"),
  max: limit("NewAlertChannelRequest", "secret", "maxLength"),
};

const LANGUAGES: { value: Channel["language"]; label: string }[] = [
  { value: "en", label: "English" },
  { value: "zh", label: "中文" },
];

/** Make a channel, or change one. URL, secret and headers can be written and never read: left empty they stay. */
export function ChannelDialog({ channel, onClose }: { channel: Channel | null; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const language = useLanguage() === "zh" ? "zh" : "en";
  const [draft, setDraft] = useState<ChannelDraft>(() => (channel ? draftOf(channel) : { ...NEW_CHANNEL, language }));
  const has = (field: (typeof FIELDS)[Channel["kind"]][number]) => FIELDS[draft.kind].includes(field);
  const fields = fieldsOf(draft, (some) => setDraft({ ...draft, ...some }), "NewAlertChannelRequest");
  return (
    <ChangeDialog
      onClose={onClose}
      affects={draft.name.trim()}
      title={channel ? t("alert_pages:channel.edit", { name: channel.name }) : t("alert_pages:channel.create")}
      actionLabel={t(channel ? "common:action.save" : "common:action.create")}
      doneMessage={t(channel ? "alert_pages:channel.changed" : "alert_pages:channel.created", { name: draft.name })}
      inputs={JSON.stringify(draft)}
      isReady={isComplete(draft, channel === null)}
      run={(attempt) =>
        channel
          ? changeChannel(channel, toChange(draft), attempt)
          : change("post", "/api/v1/alert-channels/", attempt, { body: toChannel(draft) })
      }
      refreshes={[alertsKey]}
    >
      <Stack gap="sm">
        <TextInput label={t("column.name")} required data-autofocus {...fields.text("name")} />
        <NativeSelect
          label={t("column.kind")}
          disabled={channel !== null}
          description={t(`alert_pages:channel.kind_about.${draft.kind}`)}
          data={CHANNEL_KINDS.map((value) => ({ value, label: t(`alert_pages:channel.kind.${value}`) }))}
          {...fields.text("kind")}
        />
        {has("addresses") && (
          <Textarea
            label={t("alert_pages:channel.addresses")}
            description={t("alert_pages:channel.addresses_hint", { max: ADDRESSES_MAX })}
            required
            autosize
            minRows={2}
            {...fields.text("addresses")}
          />
        )}
        {has("url") && (
          <TextInput
            type="url"
            label={t("alert_pages:channel.url")}
            description={
              channel?.origin
                ? t("alert_pages:channel.url_kept", { origin: channel.origin })
                : t(`alert_pages:channel.url_hint.${draft.kind}`)
            }
            required={channel === null}
            autoComplete="off"
            {...fields.text("url")}
          />
        )}
        {has("secret") && (
          <PasswordInput
            label={t("alert_pages:channel.secret")}
            description={t(
              channel?.has_secret ? "alert_pages:channel.secret_kept" : `alert_pages:channel.secret_hint.${draft.kind}`,
              SECRET_CHARS,
            )}
            autoComplete="new-password"
            disabled={draft.dropsSecret}
            visibilityToggleButtonProps={{ "aria-label": t("alert_pages:channel.secret_show") }}
            {...fields.text("secret")}
          />
        )}
        {has("secret") && channel?.has_secret && (
          <Checkbox label={t("alert_pages:channel.secret_drop")} {...fields.checked("dropsSecret")} />
        )}
        {has("headers") && (
          <Textarea
            label={t("alert_pages:channel.headers")}
            description={
              channel?.headers?.length
                ? t("alert_pages:channel.headers_kept", { names: channel.headers.join(", ") })
                : t("alert_pages:channel.headers_hint")
            }
            error={headersOf(draft.headers) === null && t("alert_pages:channel.headers_wrong")}
            placeholder="Authorization: Bearer …"
            autosize
            minRows={2}
            {...fields.text("headers")}
          />
        )}
        {has("language") && (
          <Labelled label={t("alert_pages:channel.language")}>
            {(id) => <SegmentedControl aria-labelledby={id} data={LANGUAGES} {...fields.chosen("language")} />}
          </Labelled>
        )}
      </Stack>
    </ChangeDialog>
  );
}
