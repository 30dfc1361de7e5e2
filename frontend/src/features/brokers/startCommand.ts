import type { Kind } from "@/features/brokers/queries";

/** The command that starts the first node of a group. META and ADDRESS are to be filled in: a metaserver's host, the node's own. */
export function firstNode(kind: Kind, group: string): string {
  const name = quoted(group);
  const node = quoted(`${group}-a`);
  return [
    `python -m ${kind === "delay" ? "delay_node" : "broker_node"} --group ${name} --node-id ${node}`,
    `--data-dir ${quoted(`/var/lib/qmq/${group}-a`)} --meta http://META:8080/meta/address`,
    "--host ADDRESS --admin-host ADDRESS",
  ].join(" \\\n  ");
}

/** As a shell takes it for one word. */
function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
