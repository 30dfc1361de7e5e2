import i18next from "i18next";
import { afterEach, expect, test } from "vitest";
import { loadTexts, setLanguage, startTexts } from "@/i18n";

afterEach(() => setLanguage("en"));

test("numbers in texts are grouped in both languages, with the plural of the number; texts stay as they are", async () => {
  await startTexts("en");
  await loadTexts(["brokers"]);
  const said = (count: number) => i18next.t("serves", { ns: "brokers", count });
  expect([said(1), said(12345)]).toEqual(["1 subject", "12,345 subjects"]);
  const name = { ns: "brokers", node: "12345" };
  expect(i18next.t("node_title", name)).toBe("Node 12345");
  await setLanguage("zh");
  expect(said(12345)).toBe("12,345 个主题");
});
