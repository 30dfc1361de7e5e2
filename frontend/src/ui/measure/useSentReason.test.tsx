import { act, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import english from "@/i18n/en/common.json";
import { setLanguage } from "@/i18n";
import { mount } from "@/test/mount";
import { useSentReason } from "@/ui/measure/useSentReason";

const VALUES: Readonly<Record<string, string>> = {
  time: "0.75 s",
  node: "g1-a",
  most: "200",
  address: "127.0.0.1:9001",
  why: "connection refused",
};
const SENT = Object.values(english.sent).map((text) =>
  text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => VALUES[name] ?? ""),
);

async function shown(texts: readonly string[], language: "en" | "zh"): Promise<string[]> {
  function Page() {
    const reasonOf = useSentReason();
    return texts.map((text) => (
      <p key={text} data-testid="reason">
        {reasonOf(text)}
      </p>
    ));
  }
  const { unmount } = await mount(Page);
  await act(() => setLanguage(language));
  const found = screen.getAllByTestId("reason").map((row) => row.textContent);
  unmount();
  return found;
}

test("each sentence is the same in English, and another one in Chinese with its values", async () => {
  expect(await shown(SENT, "en")).toEqual(SENT);
  const chinese = await shown(SENT, "zh");
  expect(chinese.filter((text) => !/\p{Script=Han}/u.test(text) || text.includes("{{"))).toEqual([]);
  expect(chinese).toContain("无法连接 127.0.0.1:9001：连接被拒绝");
  expect(chinese).toContain("0.75 s 后超时");
});

test("other sentences stay as they came", async () => {
  const texts = ["connection refused by a firewall", "127.0.0.1:9001 can't be reached: a new kind of failure"];
  expect(await shown(texts, "zh")).toEqual([texts[0], "无法连接 127.0.0.1:9001：a new kind of failure"]);
});
