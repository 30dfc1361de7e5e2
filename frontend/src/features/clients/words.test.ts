import { expect, test } from "vitest";
import { agentText } from "@/features/clients/words";

test("library and language are readable", () => {
  expect(agentText("PyQMQ/0.1.0 Python/3.11.9")).toBe("PyQMQ 0.1.0 · Python 3.11.9");
  expect(agentText("other")).toBe("other");
});
