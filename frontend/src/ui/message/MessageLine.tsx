import "@/ui/message/line.css";
import { preview } from "@/ui/message/decode";

/** The beginning of a message in one line of a list: its body, then its properties. */
export function MessageLine({ properties }: { properties: Readonly<Record<string, string>> }) {
  const { body, rest } = preview(properties);
  return (
    <span className="message-line">
      {body}
      {body && rest && "  "}
      {rest && <span className="message-rest">{rest}</span>}
    </span>
  );
}
