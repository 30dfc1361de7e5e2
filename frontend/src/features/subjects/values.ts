import type { Schema } from "@/api/client";
import { limit, limitsOf } from "@/api/limits";
import { bytesText, hoursText, parseBytes, parseCount, parseHours } from "@/features/subjects/amounts";

/** What an operator sets of a subject, as the form holds it: numbers as typed, "" for none. */
export interface SubjectForm {
  name: string;
  description: string;
  /** "" for no owner. */
  owner: string;
  tags: string[];
  messagesPerSecond: string;
  bytesPerSecond: string;
  retention: string;
  /** Whether only `allowedGroups` may pull. */
  isRestricted: boolean;
  allowedGroups: string[];
  bodyFormat: string;
  /** Of formats that have schemas. */
  bodySchema: string;
}

export type SubjectChange = Omit<Schema<"PatchedSubjectChangeRequest">, "reason">;
/** What the form sets; masking rules have their own. */
type FormValues = Required<Omit<SubjectChange, "masking">>;

const FIELDS = "NewSubjectRequest";
export const NAME_CHARS_MAX = limit(FIELDS, "name", "maxLength");
export const DESCRIPTION_CHARS_MAX = limit(FIELDS, "description", "maxLength");
export const TAGS_MAX = limit(FIELDS, "tags", "maxItems");
export const ALLOWED_GROUPS_MAX = limit(FIELDS, "allowed_groups", "maxItems");

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
  bodyFormat: "json",
  bodySchema: "",
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
  | "body_format"
  | "body_schema"
>;

/** Formats that everyone has; plug-ins of nodes add others. */
export const FORMATS = ["json", "msgpack", "avro"] as const;

/** Whether bodies in a format have a schema. */
export function hasSchema(format: string): boolean {
  return format !== "json" && format !== "msgpack";
}

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
    bodyFormat: subject.body_format ?? "json",
    bodySchema: subject.body_schema ?? "",
  };
}

/** The values of a form without problems, as the API takes them. */
export function valuesOf(form: SubjectForm): FormValues {
  return {
    description: form.description.trim(),
    owner: form.owner || null,
    tags: form.tags,
    messages_per_second: form.messagesPerSecond.trim() ? parseCount(form.messagesPerSecond) : null,
    bytes_per_second: form.bytesPerSecond.trim() ? parseBytes(form.bytesPerSecond) : null,
    retention_hours: form.retention.trim() ? parseHours(form.retention) : null,
    allowed_groups: form.isRestricted ? form.allowedGroups : null,
    body_format: form.bodyFormat,
    body_schema: hasSchema(form.bodyFormat) ? form.bodySchema.trim() : "",
  };
}

/** Only what differs: what others changed meanwhile elsewhere stays. */
export function changesOf(before: SubjectForm, after: SubjectForm): SubjectChange {
  const old = valuesOf(before);
  return Object.fromEntries(
    Object.entries(valuesOf(after)).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name as keyof FormValues]),
    ),
  );
}

/** Why a value can't be: keys below `problem.` in the texts. */
export type Problems = Partial<Record<keyof SubjectForm, string>>;

type Amount = "messages_per_second" | "bytes_per_second" | "retention_hours";

function isWithin(field: Amount, value: number | null): boolean {
  return value !== null && value >= limit(FIELDS, field, "minimum") && value <= limit(FIELDS, field, "maximum");
}

function areShort(field: "tags" | "allowed_groups", texts: readonly string[]): boolean {
  const { maxItems = 0, items } = limitsOf(FIELDS, field);
  return texts.length <= maxItems && texts.every((text) => text.length <= (items?.maxLength ?? 0));
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
  if (!areShort("tags", form.tags)) found.tags = "tags";
  if (form.messagesPerSecond.trim() && !isWithin("messages_per_second", parseCount(form.messagesPerSecond)))
    found.messagesPerSecond = "messages_per_second";
  if (form.bytesPerSecond.trim() && !isWithin("bytes_per_second", parseBytes(form.bytesPerSecond)))
    found.bytesPerSecond = "bytes_per_second";
  if (form.retention.trim() && !isWithin("retention_hours", parseHours(form.retention))) found.retention = "retention";
  const { isRestricted, allowedGroups } = form;
  if (isRestricted && (!areShort("allowed_groups", allowedGroups) || /[/\r\n\0]/.test(allowedGroups.join(""))))
    found.allowedGroups = "allowed_groups";
  return found;
}
