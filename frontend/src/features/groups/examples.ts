/** The lines that make a first consumer, with the names filled in. */

/** A text as a shell takes it for one word. */
export function shellWord(text: string): string {
  return /^[\w.:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function consumeCommand(subject: string, group: string): string {
  return `qmq consume ${shellWord(subject)} ${shellWord(group)}`;
}

export function consumeInPython(subject: string, group: string): string {
  // JSON's text literals are Python's too.
  const names = `${JSON.stringify(subject)}, ${JSON.stringify(group)}`;
  return `async with Consumer("http://META/meta/address", ${names}) as consumer:
    async for delivery in consumer:
        async with delivery:  # leaving acks; an exception retries
            print(delivery.properties)`;
}
