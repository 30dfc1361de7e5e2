import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { Help } from "@/app/help/Help";
import { isPressed } from "@/app/help/keys";
import { pages } from "@/app/pages";
import { mount } from "@/test/mount";

test("each page names a page of the documentation that is there", () => {
  const missing = pages.filter(({ docs }) => !existsSync(`../docs/${docs}.md`));
  expect(missing.map(({ path, docs }) => [path, docs])).toEqual([]);
});

test("the menu leads to the documentation of the page, and `?` shows the keys", async () => {
  await mount(Help, "/alerts");
  await userEvent.click(screen.getByRole("button", { name: "Help" }));
  const items = await screen.findAllByRole("menuitem");
  expect(items.map((item) => [item.textContent, item.getAttribute("href")])).toEqual([
    ["Documentation of this page", "/docs/alerts"],
    ["Documentation", "/docs/"],
    ["API reference", "/docs/api"],
    ["Keyboard shortcuts", null],
  ]);
  await userEvent.keyboard("{Escape}?");
  expect(await screen.findByRole("dialog", { name: "Keyboard shortcuts" })).toBeInTheDocument();
});

test("a key in a field is text", () => {
  const pressed = (target: HTMLElement, init: KeyboardEventInit) => {
    const event = new KeyboardEvent("keydown", init);
    Object.defineProperty(event, "target", { value: target });
    return isPressed(event, "/");
  };
  expect(pressed(document.body, { key: "/" })).toBe(true);
  expect(pressed(document.createElement("input"), { key: "/" })).toBe(false);
  expect(pressed(document.createElement("textarea"), { key: "/" })).toBe(false);
  expect(pressed(document.body, { key: "/", ctrlKey: true })).toBe(false);
});
