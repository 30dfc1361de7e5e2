import type { Kind } from "@/features/brokers/queries";
import { shellWord } from "@/ui/clientLines";

/**
 * The command that starts the first node of a group. ADDRESS, the node's own address, is to be filled in.
 *
 * @param metaservers host:port of each metaserver, separated by commas
 */
export function firstNode(kind: Kind, group: string, metaservers: string): string {
  const name = shellWord(group);
  const node = shellWord(`${group}-a`);
  return [
    `python -m ${kind === "delay" ? "delay_node" : "broker_node"} --group ${name} --node-id ${node}`,
    `--data-dir ${shellWord(`/var/lib/qmq/${group}-a`)} --meta ${shellWord(metaservers)}`,
    "--host ADDRESS --admin-host ADDRESS",
  ].join(" \\\n  ");
}
