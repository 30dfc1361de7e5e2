import { QueryClient } from "@tanstack/react-query";
import { act, render, screen } from "@testing-library/react";
import i18next from "i18next";
import { expect, test } from "vitest";
import { Problem } from "@/api/problem";
import { Providers } from "@/app/providers";
import { setLanguage, startTexts, type Language } from "@/i18n";
import { mount } from "@/test/mount";
import { ProblemText } from "@/ui/page/ProblemText";

const EXISTS = new Problem(409, "subject.exists", "Conflict", "Subject 'orders' already exists. Choose another name.");
const LATER = new Problem(409, "subject.of_a_later_version", "Conflict", "The subject melts.");

async function shown(language: Language, error: unknown): Promise<(string | null)[]> {
  await mount(() => (
    <div data-testid="problem">
      <ProblemText error={error} />
    </div>
  ));
  await act(() => setLanguage(language));
  return [...screen.getByTestId("problem").children].map((line) => line.textContent);
}

test.each<[string, Language, unknown, string[]]>([
  ["what the API says, in English", "en", EXISTS, [EXISTS.detail]],
  [
    "a sentence of its language, and then the API's",
    "zh",
    EXISTS,
    ["已有同名的主题。请换一个名称，或修改已有的主题。", EXISTS.detail],
  ],
  ["what the API says, for a code of a later version", "zh", LATER, [LATER.detail]],
  [
    "a sentence alone, where no details came",
    "zh",
    new Problem(502, "console.unexpected", "HTTP 502", ""),
    ["收到了意外的应答，它可能来自控制台前面的代理。请稍后重试。"],
  ],
  ["what happened, of any other error", "en", new Error("no such page"), ["no such page"]],
])("a problem is shown as %s", async (_, language, error, lines) => {
  expect(await shown(language, error)).toEqual(lines);
});

test("the sentences are loaded with the first problem, and until then the API's is shown", async () => {
  await startTexts("zh");
  expect(i18next.hasResourceBundle("zh", "problems")).toBe(false);
  render(
    <Providers client={new QueryClient()}>
      <ProblemText error={EXISTS} />
    </Providers>,
  );
  expect(screen.getByText(EXISTS.detail)).toBeInTheDocument();
  expect(await screen.findByText("已有同名的主题。请换一个名称，或修改已有的主题。")).toBeInTheDocument();
  await setLanguage("en");
});
