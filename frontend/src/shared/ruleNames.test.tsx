import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { setLanguage } from "@/i18n";
import { mount } from "@/test/mount";
import { useRuleName } from "@/shared/ruleNames";

function Page() {
  const ruleName = useRuleName();
  return <p>{["New dead letters", "Our own rule"].map(ruleName).join(" | ")}</p>;
}

test("built-in rules are named in the viewer's language, others as they are called", async () => {
  await mount(Page);
  expect(screen.getByText("New dead letters | Our own rule")).toBeInTheDocument();
  await setLanguage("zh");
  expect(await screen.findByText("出现新的死信 | Our own rule")).toBeInTheDocument();
  await setLanguage("en");
});
