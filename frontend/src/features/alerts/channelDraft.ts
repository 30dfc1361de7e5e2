import { isWellFormed, limitsOf } from "@/api/limits";
import type { Channel, ChannelChange, NewChannel } from "@/features/alerts/queries";

/** A channel as its form holds it. What the API never shows begins empty, and empty means: unchanged. */
export interface ChannelDraft {
  name: string;
  kind: Channel["kind"];
  /** Of what people read. */
  language: Channel["language"];
  url: string;
  secret: string;
  /** Instead of a new one: none any more. */
  dropsSecret: boolean;
  /** `Name: value`, one a line. */
  headers: string;
  /** Email addresses, one a line. */
  addresses: string;
}

const URL_LIMIT = limitsOf("NewAlertChannelRequest", "url");

/** The fields of each kind, besides its name. */
export const FIELDS: Record<Channel["kind"], readonly ("url" | "secret" | "headers" | "addresses" | "language")[]> = {
  webhook: ["url", "secret", "headers"],
  email: ["addresses", "language"],
  slack: ["url", "language"],
  dingtalk: ["url", "secret", "language"],
  feishu: ["url", "secret", "language"],
  wecom: ["url", "language"],
};
export const CHANNEL_KINDS = Object.keys(FIELDS) as Channel["kind"][];

export const NEW_CHANNEL: ChannelDraft = {
  name: "",
  kind: "webhook",
  language: "en",
  url: "",
  secret: "",
  dropsSecret: false,
  headers: "",
  addresses: "",
};

export function draftOf({ name, kind, language, addresses }: Channel): ChannelDraft {
  return { ...NEW_CHANNEL, name, kind, language, addresses: (addresses ?? []).join("\n") };
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

/** The headers of `Name: value` lines; null when a line is none. */
export function headersOf(text: string): Record<string, string> | null {
  const headers: Record<string, string> = {};
  for (const line of lines(text)) {
    const colon = line.indexOf(":");
    if (colon < 1) return null;
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}

/** Whether it can be tried; the API says what is wrong with a value. */
export function isComplete(draft: ChannelDraft, isNew: boolean): boolean {
  if (!draft.name.trim()) return false;
  if (draft.kind === "email") return lines(draft.addresses).length > 0;
  const isUrl = isWellFormed(URL_LIMIT, draft.url) && (!isNew || draft.url.trim() !== "");
  return isUrl && (draft.kind !== "webhook" || headersOf(draft.headers) !== null);
}

function settings(draft: ChannelDraft): Omit<ChannelChange, "name"> {
  const headers = headersOf(draft.headers) ?? {};
  const given: Omit<ChannelChange, "name"> = {
    addresses: lines(draft.addresses),
    language: draft.language,
    ...(draft.url.trim() ? { url: draft.url.trim() } : {}),
    ...(draft.dropsSecret ? { secret: null } : draft.secret ? { secret: draft.secret } : {}),
    ...(Object.keys(headers).length > 0 ? { headers } : {}),
  };
  const fields: readonly string[] = FIELDS[draft.kind];
  return Object.fromEntries(Object.entries(given).filter(([name]) => fields.includes(name)));
}

export function toChannel(draft: ChannelDraft): NewChannel {
  return { name: draft.name.trim(), kind: draft.kind, ...settings(draft) };
}

/** What of a channel is to change: secrets only when they were typed. */
export function toChange(draft: ChannelDraft): ChannelChange {
  return { name: draft.name.trim(), ...settings(draft) };
}
