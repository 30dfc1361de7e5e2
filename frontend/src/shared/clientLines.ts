export const DEFAULT_ADDRESS = "localhost:8080";
/** The default address of clients, in the spellings that a console may know. */
const DEFAULTS: ReadonlySet<string> = new Set([DEFAULT_ADDRESS, "127.0.0.1:8080", "[::1]:8080"]);
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** A text as one word of a shell command. */
export function shellWord(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * The addresses of the metaservers for clients, separated by commas: the console's own, but a loopback address is
 * replaced by the host that the page was loaded from.
 */
export function clientAddress(metaservers: string, pageHost: string): string {
  return metaservers
    .split(",")
    .map((metaserver) => {
      const [, host = "", port = "8080"] = /^(.*?)(?::(\d+))?$/.exec(metaserver) ?? [];
      return LOOPBACK.test(host) && !LOOPBACK.test(pageHost) ? `${pageHost}:${port}` : `${host}:${port}`;
    })
    .join(",");
}

/** Commands of `qmq` for a system, one per line. */
export function commandLines(address: string, commands: readonly string[]): string {
  const first = DEFAULTS.has(address) ? [] : [`export QMQ_META=${shellWord(address)}`];
  return [...first, ...commands].join("\n");
}

/** A program that sends a message. */
export function producerProgram(address: string, subject: string): string {
  // JSON's string literals are Python's too.
  return `from qmq.sync import Producer

with Producer(${JSON.stringify(address)}, app="my-app") as producer:
    producer.send(${JSON.stringify(subject)}, {"hello": "world"})`;
}

/** A program that consumes messages. */
export function consumerProgram(address: string, subject: string, group: string): string {
  return `from qmq.sync import Consumer

with Consumer(${[address, subject, group].map((text) => JSON.stringify(text)).join(", ")}) as consumer:
    for delivery in consumer:
        with delivery:  # acknowledges at the end, retries on an exception
            print(delivery.properties)`;
}
