/** The open folders as the address has them. Names of subjects have no spaces. */
export function parseOpen(text: string | undefined): ReadonlySet<string> {
  return new Set((text ?? "").split(" ").filter(Boolean));
}

/** The address's text after a folder was opened or closed; a closed one closes what is in it. */
export function toggled(open: ReadonlySet<string>, folder: string): string | undefined {
  const next = open.has(folder) ? [...open].filter((one) => !one.startsWith(folder)) : [...open, folder];
  return next.join(" ") || undefined;
}
