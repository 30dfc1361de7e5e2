/** What the API takes at most: DOCUMENT_BYTES_MAX of api/views/provisioning.py. */
export const DOCUMENT_BYTES_MAX = 1 << 20;

/** A document to begin with: that of deploy/example.yaml. */
export const EXAMPLE = `# What the document does not mention stays as it is; nothing is deleted.
subjects:
  - name: order.paid
    description: An order was paid
    tags: [orders, money]
    messages_per_second: 2000      # on each broker group; more is rejected, and producers retry
    retention_hours: 72
    consumer_groups:
      - name: billing
        description: Writes invoices
      - shipping
  - name: order.remind
    allowed_groups: [mailer]       # brokers give other groups nothing; this is no access control, because clients are not authenticated
`;

export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** How the API must read it: JSON begins with a brace, everything else is YAML. */
export function contentType(text: string): "application/json" | "application/yaml" {
  return text.trimStart().startsWith("{") ? "application/json" : "application/yaml";
}

/**
 * The line (from 1) that an error of the API is about: the one it names last, as YAML's own errors begin with where the
 * surrounding block starts; else the first that holds the name of the subject, team or consumer group it speaks of.
 * Null when it names none.
 */
export function lineOf(detail: string, text: string): number | null {
  const named = [...detail.matchAll(/\bline (\d+)/g)].at(-1)?.[1];
  const lines = text.split("\n");
  if (named !== undefined) return Math.min(Number(named), lines.length);
  const subject = /^(?:subject|team|consumer group) ([^\s:]+)/.exec(detail)?.[1];
  if (subject === undefined) return null;
  const at = lines.findIndex((line) => {
    const content = line.replace(/#.*$/, "");
    return content.split(/[\s,:"'{}[\]]+/).includes(subject);
  });
  return at < 0 ? null : at + 1;
}

/** Where a line begins and ends in the text. */
export function rangeOfLine(text: string, line: number): [begin: number, end: number] {
  const lines = text.split("\n");
  const begin = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return [begin, begin + (lines[line - 1]?.length ?? 0)];
}
