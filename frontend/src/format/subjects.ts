/** Names of subjects: those of users, and those that the system makes for a consumer group. Pure. */

export interface SubjectName {
  kind: "real" | "retry" | "dead";
  /** The subject that people sent to. */
  subject: string;
  /** The consumer group of a retry or dead-letter subject; empty for a real one. */
  group: string;
}

/** What kind of subject a name means: `%RETRY%order.paid%billing` is where group billing's failed messages go. */
export function splitSubject(name: string): SubjectName {
  const kind = name.startsWith("%RETRY") ? "retry" : name.startsWith("%DEAD_RETRY") ? "dead" : "real";
  if (kind === "real") return { kind, subject: name, group: "" };
  const [, subject, group, ...rest] = name.split("%").filter(Boolean);
  if (subject === undefined || group === undefined || rest.length > 0) return { kind, subject: name, group: "" };
  return { kind, subject, group };
}
