import { expect, test } from "vitest";
import { clientAddress, commandLines, consumerProgram, shellWord } from "@/shared/clientLines";

test("names are quoted for the shell and for Python", () => {
  expect(shellWord("order.paid")).toBe("order.paid");
  expect(shellWord("it's")).toBe(`'it'\\''s'`);
  expect(consumerProgram("a:1", 'say "hi"', "g")).toContain('Consumer("a:1", "say \\"hi\\"", "g")');
});

test("a loopback address becomes the host of the page", () => {
  expect(clientAddress("127.0.0.1:33001", "localhost")).toBe("127.0.0.1:33001");
  expect(clientAddress("127.0.0.1:33001", "qmq.example.com")).toBe("qmq.example.com:33001");
  expect(clientAddress("meta.internal:8080", "qmq.example.com")).toBe("meta.internal:8080");
  expect(clientAddress("meta.internal", "qmq.example.com")).toBe("meta.internal:8080");
  expect(clientAddress("a:1,127.0.0.1:2", "qmq.example.com")).toBe("a:1,qmq.example.com:2");
});

test("commands name the system unless it has the default address", () => {
  expect(commandLines("127.0.0.1:8080", ["qmq status"])).toBe("qmq status");
  expect(commandLines("127.0.0.1:33001", ["qmq status"])).toBe("export QMQ_META=127.0.0.1:33001\nqmq status");
  expect(commandLines("a:1,b:2", ["qmq status"])).toBe("export QMQ_META=a:1,b:2\nqmq status");
});
