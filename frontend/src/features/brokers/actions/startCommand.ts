import type { Kind } from "@/features/brokers/queries";
import { shellWord } from "@/shared/clientLines";

/** Programs and default ports for slaves; a firewall between the members has to let them through. */
const PROGRAMS = { broker: ["broker_node", 20882], delay: ["delay_node", 20886] } as const;

/**
 * The command that starts the first node of a group. ADDRESS, the node's own address, is to be filled in, and so is the
 * file with the node secret where it is another.
 *
 * @param metaservers host:port of each metaserver, separated by commas
 */
export function firstNode(kind: Kind, group: string, metaservers: string): string {
  const name = shellWord(group);
  const node = shellWord(`${group}-a`);
  const [program, syncPort] = PROGRAMS[kind === "delay" ? "delay" : "broker"];
  return [
    `QMQ_NODE_TOKEN_FILE=/etc/qmq/node_token python -m ${program} --broker-group ${name} --node-id ${node}`,
    `--data-dir ${shellWord(`/var/lib/qmq/${group}-a`)} --meta ${shellWord(metaservers)}`,
    `--host ADDRESS --admin-host ADDRESS --sync-port ${syncPort}`,
  ].join(" \\\n  ");
}
