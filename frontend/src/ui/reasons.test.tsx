import { act, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { setLanguage } from "@/i18n";
import { loadSent } from "@/i18n/sentences";
import { mount } from "@/test/mount";
import { useReason, useRecordedReason, type Recorded } from "@/ui/reasons";

afterEach(() => setLanguage("en"));

type Why = Parameters<ReturnType<typeof useReason>>[0];

async function shown(why: Why, text: string) {
  function Page() {
    return <p data-testid="reason">{useReason()(why, text)}</p>;
  }
  await mount(Page);
  return screen.getByTestId("reason").textContent;
}

test("a reason is made of its code and values, with numbers as everywhere", async () => {
  const values = { end: 1234567, high_watermark: 2000000 };
  expect(await shown({ code: "lost_data", values, text: "unused" }, "unused")).toBe(
    "its log ends at 1,234,567, below the high watermark 2,000,000: it has lost data",
  );
});

test.each<[string, Why, string]>([
  ["without a reason", null, "the audit log's text"],
  ["with one that has only a text", { code: "", values: {}, text: "Read-only file system" }, "Read-only file system"],
  ["with a code that this version does not know", { code: "unheard_of", values: { n: 1 }, text: "n is 1" }, "n is 1"],
])("the text that came is shown %s", async (_, why, text) => {
  expect(await shown(why, "the audit log's text")).toBe(text);
});

test("a part of a sentence that is not known is shown as it came", async () => {
  const why = { code: "unheard_of", values: {}, text: "it melts" };
  expect(await shown({ code: "node_with", values: { node: "g1-b", why }, text: "" }, "")).toBe("node g1-b: it melts");
});

test.each<[string, Recorded, string]>([
  ["what a person wrote as it was written", { reason: "connection refused", actor: "ada" }, "connection refused"],
  ["what a token's owner wrote, too", { reason: "not queried", actor: "ada (token qmq_1)" }, "not queried"],
  [
    "a sentence of a process in the viewer's language",
    { reason: "first registration", actor: "metaserver" },
    "首次注册",
  ],
  ["one whose actor is not named, too", { reason: "connection refused" }, "连接被拒绝"],
  ["a reason with a code by its code", { why: { code: "disk_full", values: {}, text: "" }, actor: "ada" }, "磁盘已满"],
  ["no reason", { actor: "ada" }, ""],
])("of a recorded change is shown: %s", async (_, change, expected) => {
  await loadSent("zh");
  function Page() {
    return <p data-testid="recorded">{useRecordedReason()(change)}</p>;
  }
  await mount(Page);
  await act(() => setLanguage("zh"));
  expect(screen.getByTestId("recorded").textContent).toBe(expected);
});
