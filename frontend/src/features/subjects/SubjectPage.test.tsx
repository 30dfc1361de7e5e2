import { screen } from "@testing-library/react";
import { beforeEach, expect, test } from "vitest";
import SubjectPage from "@/features/subjects/SubjectPage";
import { fakeFeeds, snapshot } from "@/test/feeds";
import { answer, mount } from "@/test/mount";

let feeds: ReturnType<typeof fakeFeeds>;

beforeEach(() => {
  feeds = fakeFeeds();
});

function measured(orders: object) {
  const state = { subjects: { orders: { subject: "orders", reason: null, ...orders } }, groups: {} };
  for (const feed of feeds) feed.say(snapshot(state));
}

test("messages that are lost to damage are counted, with links to the broker groups", async () => {
  answer({});
  await mount(SubjectPage, "/subjects/orders", "/subjects/$subject");
  await screen.findByRole("heading", { name: "orders" });
  expect(document.querySelector("[data-withheld]")).toBeNull();
  measured({ withheld: 1_234, withheld_on: ["g1", "g2"] });
  expect(await screen.findByText("1,234 messages withheld")).toBeVisible();
  expect(screen.getByText(/can't be delivered/)).toBeVisible();
  expect(screen.getByRole("link", { name: "g1" })).toHaveAttribute("href", "/brokers/g1");
  expect(screen.getByRole("link", { name: "g2" })).toHaveAttribute("href", "/brokers/g2");
});

test.each([
  ["none are withheld", { withheld: 0, withheld_on: [] }],
  ["their number is not measured", { withheld: null, withheld_on: ["g1"], reason: "no answer" }],
])("nothing is shown when %s", async (_, entry) => {
  answer({});
  await mount(SubjectPage, "/subjects/orders", "/subjects/$subject");
  await screen.findByRole("heading", { name: "orders" });
  measured(entry);
  expect(document.querySelector("[data-withheld]")).toBeNull();
});
