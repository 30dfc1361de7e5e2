import { act, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { Problem } from "@/api/problem";
import { setLanguage, type Language } from "@/i18n";
import { mount } from "@/test/mount";
import { ProblemText } from "@/ui/page/ProblemText";

const GONE = new Problem(404, "subject.unknown", "Not Found", "Subject 'orders' not found.");
const STRANGE = new Problem(409, "subject.exists", "Conflict", "The subject melts.");
const LATER = new Problem(409, "subject.of_a_later_version", "Conflict", "The subject melts.");

async function shown(language: Language, error: unknown): Promise<(string | null)[]> {
  await mount(() => (
    <div data-testid="problem">
      <ProblemText error={error} />
    </div>
  ));
  await act(() => setLanguage(language));
  if (language !== "en" && error !== LATER) await screen.findByText(/\p{Script=Han}/u);
  return [...screen.getByTestId("problem").children].map((line) => line.textContent);
}

test.each<[string, Language, unknown, string[]]>([
  ["what the API says, in English", "en", GONE, [GONE.detail]],
  ["what the API says, in Chinese", "zh", GONE, ["未找到主题 'orders'。"]],
  [
    "the sentence of its code, and then the API's where that is unknown",
    "zh",
    STRANGE,
    ["已有同名的主题。请换一个名称，或修改已有的主题。", STRANGE.detail],
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
