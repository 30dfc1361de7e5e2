import { act, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { setLanguage } from "@/i18n";
import { useTranslation } from "@/i18n/useTranslation";
import { mount } from "@/test/mount";

afterEach(() => setLanguage("en"));

test("a change of language draws again what has texts; until then `t` is the same in all components", async () => {
  const seen: unknown[] = [];
  function Part() {
    const { t, language } = useTranslation("subjects");
    seen.push(t);
    return (
      <p data-testid={language}>
        {t("title")} · {t("common:state.loading")}
      </p>
    );
  }
  await mount(() => (
    <>
      <Part />
      <Part />
    </>
  ));
  expect(screen.getAllByTestId("en").map(({ textContent }) => textContent)).toEqual([
    "Subjects · Loading",
    "Subjects · Loading",
  ]);
  expect(new Set(seen).size).toBe(1);
  await act(() => setLanguage("zh"));
  expect(screen.getAllByTestId("zh")[1]).toHaveTextContent(/^主题 · /);
  expect(new Set(seen).size).toBe(2);
});
