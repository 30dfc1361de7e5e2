/** How a stored message is named in addresses and lists: `main:17`. A broker group's name holds no colon. */
export function placeKey({ broker_group, sequence }: { broker_group: string; sequence: string }): string {
  return `${broker_group}:${sequence}`;
}

export function placeOf(key: string): { brokerGroup: string; sequence: string } {
  const cut = key.lastIndexOf(":");
  return { brokerGroup: key.slice(0, cut), sequence: key.slice(cut + 1) };
}
