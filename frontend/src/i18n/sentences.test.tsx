import { act, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { setLanguage, type Language } from "@/i18n";
import { translator } from "@/i18n/sentences";
import { useSentence } from "@/i18n/useSentence";
import chinese from "@/i18n/zh/sentences.json";
import { mount } from "@/test/mount";

const VALUES = /\{(\w+)\}/g;

/** A sentence with a value of its own in each place. */
function filled(sentence: string): string {
  return sentence.replace(VALUES, (_, name: string) => `‹${name}›`);
}

async function shown(texts: readonly string[], language: Language): Promise<string[]> {
  function Page() {
    const sentence = useSentence();
    return texts.map((text) => (
      <p key={text} data-testid="sentence">
        {sentence(text)}
      </p>
    ));
  }
  const { unmount } = await mount(Page);
  await act(() => setLanguage(language));
  if (language !== "en") await screen.findAllByText(/\p{Script=Han}/u);
  const found = screen.getAllByTestId("sentence").map((row) => row.textContent);
  unmount();
  return found;
}

test("each sentence is found again, with its values in their places", () => {
  const translate = translator(chinese);
  const wrong = Object.entries(chinese).filter(([sentence, text]) => translate(filled(sentence)) !== filled(text));
  expect(wrong).toEqual([]);
});

test("each sentence has the same values in Chinese, and words that are Chinese", () => {
  const names = (text: string) => [...text.matchAll(VALUES)].map(([, name]) => name).sort();
  const wrong = Object.entries(chinese).filter(
    ([sentence, text]) =>
      names(sentence).join() !== names(text).join() ||
      (!/\p{Script=Han}/u.test(text) && /\p{L}/u.test(text.replace(VALUES, "").replace("Errno", ""))),
  );
  expect(wrong).toEqual([]);
});

const TEXTS = {
  "subject {name} exists": "主题 {name} 已存在",
  "subject {name} exists on {group}": "{group} 上已有主题 {name}",
  "can't be reached: {why}": "无法连接：{why}",
  "connection refused": "连接被拒绝",
  "Choose another name.": "请换一个名称。",
  "It is in use.": "正在使用。",
  "{what} is busy": "{what} 正忙",
  "read only: {why}": "只读：{why}",
  "{count} copies are required": "需要 {count} 个副本",
  "{first}; {rest}": "{first}；{rest}",
};
const translate = translator(TEXTS, { "subject {name}": "主题 {name}", "a {what}": "一个 {what}" });

test.each<[string, string, string | undefined]>([
  ["a sentence", "connection refused", "连接被拒绝"],
  ["a value", "subject 'a: b' exists", "主题 'a: b' 已存在"],
  ["of two forms, that with more words", "subject a exists on g1", "g1 上已有主题 a"],
  ["a value that is a sentence", "can't be reached: connection refused", "无法连接：连接被拒绝"],
  ["a value that is none", "can't be reached: the moon is full", "无法连接：the moon is full"],
  ["a part as a sentence", "Connection refused.", "连接被拒绝。"],
  ["a value that must not take in the next", "subject a is busy; connection refused", "主题 a 正忙；连接被拒绝"],
  ["of two forms, that which begins alike", "read only: 2 copies are required", "只读：需要 2 个副本"],
  ["several sentences", "It is in use. Choose another name.", "正在使用。请换一个名称。"],
  ["several parts", "connection refused; subject a exists", "连接被拒绝；主题 a 已存在"],
  ["a value that is a thing", "subject a is busy", "主题 a 正忙"],
  ["a thing in a thing", "a subject a is busy", "一个 主题 a 正忙"],
  ["a thing alone", "subject a", undefined],
  ["a value in quotes before it", "'a: b' connection refused", "'a: b' 连接被拒绝"],
  ["a value in quotes and a colon before it", "'a b': connection refused", "'a b'：连接被拒绝"],
  ["what it is about", "properties.order: subject a exists", "properties.order：主题 a 已存在"],
  ["parts of which one is unknown", "connection refused; the moon is full", undefined],
  ["no value", "subject  exists", undefined],
  ["more than a sentence", "connection refused by a firewall", undefined],
  ["a text beyond the limit", `subject ${"a".repeat(2_000)} exists`, undefined],
  ["nothing", "", undefined],
])("a text is translated: %s", (_, text, expected) => {
  expect(translate(text)).toBe(expected);
  // As it was remembered.
  expect(translate(text)).toBe(expected);
});

test("sentences in sentences are translated to a limit", () => {
  const text = `${"can't be reached: ".repeat(9)}connection refused`;
  expect(translate(text)).toMatch(/^(无法连接：){5}can't be reached: /);
});

test("more different texts than are remembered are translated", () => {
  const texts = Array.from({ length: 1_200 }, (_, index) => `subject s${index} exists`);
  expect(texts.map(translate)).toEqual(texts.map((_, index) => `主题 s${index} 已存在`));
  expect(translate(texts[0] ?? "")).toBe("主题 s0 已存在");
});

test("pages show what was sent in English, and in Chinese with reasons in it", async () => {
  const sent = ["connection refused", "Node n1 can't lead: it is not in sync.", "a new kind of failure"];
  expect(await shown(sent, "en")).toEqual(sent);
  expect(await shown(sent, "zh")).toEqual(["连接被拒绝", "节点 n1 不能担任主节点：未同步。", sent[2]]);
});

test("sentences are loaded with the first that is to be shown, once, and until then it is shown as it came", async () => {
  vi.resetModules();
  const texts = await import("@/i18n");
  const load = vi.spyOn(texts, "entries");
  const { loadSent, onSent, sentIn } = await import("@/i18n/sentences");
  const heard = vi.fn();
  const stop = onSent(heard);
  const before = sentIn("zh");
  expect(sentIn("zh")).toBe(before);
  expect(["", "g1-a", `${"long ".repeat(401)}text`].map(before.translate)).toEqual([undefined, undefined, undefined]);
  expect(load).not.toHaveBeenCalled();
  expect([before.translate("connection refused"), before.problem("subject.exists")]).toEqual([undefined, undefined]);
  await vi.waitFor(() => expect(heard).toHaveBeenCalled());
  expect(heard).toHaveBeenCalledOnce();
  expect(load.mock.calls.map((call) => call.join("/"))).toContain("zh/sentences");
  stop();
  const after = sentIn("zh");
  expect(after).not.toBe(before);
  expect(await loadSent("zh")).toBe(after);
  expect(after.translate("connection refused")).toBe("连接被拒绝");
  expect(after.problem("subject.exists")).toMatch(/已有同名的主题/);
  expect(after.problem("subject.of_a_later_version")).toBeUndefined();
});
