import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { NotFound } from "@/app/errors";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

test("an address without a page keeps the menu", async () => {
  answer({ "GET /api/v1/me/": me() });
  await mount(NotFound, "/nosuch");
  expect(await screen.findByRole("heading", { level: 1, name: "Page not found" })).toBeInTheDocument();
  const menu = screen.getByRole("navigation", { name: "Pages" });
  expect(within(menu).getByRole("link", { name: "Subjects" })).toHaveAttribute("href", "/subjects");
});
