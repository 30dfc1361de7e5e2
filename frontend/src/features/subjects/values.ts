import type { Schema } from "@/api/client";
import { bytesText, hoursText, parseBytes, parseCount, parseHours } from "@/features/subjects/amounts";

/** What an operator sets of a subject, as the form holds it: numbers as typed, "" for none. */
export interface SubjectForm {
  name: string;
  description: string;
  /** "" for nobody. */
  owner: string;
  tags: string[];
  messagesPerSecond: string;
  bytesPerSecond: string;
  retention: string;
  /** Whether only `allowedGroups` may pull. */
  isRestricted: boolean;
  allowedGroups: string[];
}

export type SubjectChange = Omit<Schema<"PatchedSubjectChangeRequest">, "reason">;

/** The API's limits, metaserver/services/subjects.py. */
export const NAME_CHARS_MAX = 100;
export const DESCRIPTION_CHARS_MAX = 500;
export const TAGS_MAX = 20;
export const TAG_CHARS_MAX = 50;
export const MESSAGES_PER_SECOND_MAX = 10_000_000;
export const BYTES_PER_SECOND_MAX = 100 * 1024 ** 3;
export const RETENTION_HOURS_MIN = 0.001;
export const RETENTION_HOURS_MAX = 24 * 366 * 2;
export const ALLOWED_GROUPS_MAX = 200;
export const GROUP_CHARS_MAX = 100;

export const EMPTY: SubjectForm = {
  name: "",
  description: "",
  owner: "",
  tags: [],
  messagesPerSecond: "",
  bytesPerSecond: "",
  retention: "",
  isRestricted: false,
  allowedGroups: [],
};

type Described = Pick<
  Schema<"SubjectRow">,
  | "name"
  | "description"
  | "owner"
  | "tags"
  | "messages_per_second"
  | "bytes_per_second"
  | "retention_hours"
  | "allowed_groups"
>;

/** A subject as the form shows it. */
export function formOf(subject: Described): SubjectForm {
  return {
    name: subject.name,
    description: subject.description ?? "",
    owner: subject.owner ?? "",
    tags: [...(subject.tags ?? [])],
    messagesPerSecond: subject.messages_per_second?.toString() ?? "",
    bytesPerSecond: subject.bytes_per_second ? bytesText(subject.bytes_per_second) : "",
    retention: subject.retention_hours ? hoursText(subject.retention_hours) : "",
    isRestricted: Array.isArray(subject.allowed_groups),
    allowedGroups: [...(subject.allowed_groups ?? [])],
  };
}

/** What the API is told of a form without problems. */
export function valuesOf(form: SubjectForm): Required<SubjectChange> {
  return {
    description: form.description.trim(),
    owner: form.owner || null,
    tags: form.tags,
    messages_per_second: form.messagesPerSecond.trim() ? parseCount(form.messagesPerSecond) : null,
    bytes_per_second: form.bytesPerSecond.trim() ? parseBytes(form.bytesPerSecond) : null,
    retention_hours: form.retention.trim() ? parseHours(form.retention) : null,
    allowed_groups: form.isRestricted ? form.allowedGroups : null,
  };
}

/** Only what differs: what others changed meanwhile elsewhere stays. */
export function changesOf(before: SubjectForm, after: SubjectForm): SubjectChange {
  const old = valuesOf(before);
  return Object.fromEntries(
    Object.entries(valuesOf(after)).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name as keyof SubjectChange]),
    ),
  );
}

/** Why a value can't be: keys below `problem.` in the texts. */
export type Problems = Partial<Record<keyof SubjectForm, string>>;

function between(value: number | null, low: number, high: number): boolean {
  return value !== null && value >= low && value <= high;
}

/** What is wrong with the form, field by field, by the rules of the API; the API decides anyway. */
export function problemsOf(form: SubjectForm): Problems {
  const found: Problems = {};
  const { name } = form;
  if (!name) found.name = "name_empty";
  else if (name.length > NAME_CHARS_MAX) found.name = "name_long";
  else if (name.startsWith("%")) found.name = "name_percent";
  else if (/[/\s\0\x85]/u.test(name)) found.name = "name_breaking";
  if (form.description.length > DESCRIPTION_CHARS_MAX) found.description = "description_long";
  if (form.tags.length > TAGS_MAX || form.tags.some((tag) => tag.length > TAG_CHARS_MAX)) found.tags = "tags";
  if (form.messagesPerSecond.trim() && !between(parseCount(form.messagesPerSecond), 1, MESSAGES_PER_SECOND_MAX))
    found.messagesPerSecond = "messages_per_second";
  if (form.bytesPerSecond.trim() && !between(parseBytes(form.bytesPerSecond), 1, BYTES_PER_SECOND_MAX))
    found.bytesPerSecond = "bytes_per_second";
  if (form.retention.trim() && !between(parseHours(form.retention), RETENTION_HOURS_MIN, RETENTION_HOURS_MAX))
    found.retention = "retention";
  if (
    form.isRestricted &&
    (form.allowedGroups.length > ALLOWED_GROUPS_MAX ||
      form.allowedGroups.some((group) => group.length > GROUP_CHARS_MAX || /[/\r\n\0]/.test(group)))
  )
    found.allowedGroups = "allowed_groups";
  return found;
}
