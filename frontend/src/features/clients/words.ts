import type { Client } from "@/features/clients/queries";

/** What a client reports of itself, such as "PyQMQ/1.0 Python/3.11", as people write it. Pure. */
export function agentText(agent: string): string {
  return agent
    .split(" ")
    .map((part) => part.replace("/", " "))
    .join(" · ");
}

/** What identifies a client in a list. */
export function clientKey({ role, subject, group, app, host, client_id: id }: Client): string {
  return [role, subject, group, app, host, id].join("\n");
}
