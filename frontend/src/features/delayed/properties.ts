/** Properties as typed, `name=value` a line; `wrong` is the first line that is none. */
export function readProperties(text: string): { properties: Record<string, string>; wrong: string | null } {
  const properties: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    const name = line.slice(0, at).trim();
    if (at < 0 || name === "") return { properties, wrong: line };
    properties[name] = line.slice(at + 1).trim();
  }
  return { properties, wrong: null };
}
