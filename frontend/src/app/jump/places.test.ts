import { expect, test } from "vitest";
import { addressOf, fits, hintOf, type Found } from "@/app/jump/places";

const found = (kind: Found["kind"], more: Partial<Found> = {}): Found => ({
  kind,
  name: "n",
  subject: null,
  broker_group: null,
  sequence: null,
  text: "",
  ...more,
});

test("each kind leads to its page", () => {
  const message = { subject: "order.paid", broker_group: "b1", sequence: "17" };
  expect(addressOf(found("consumer_group", { name: "billing", subject: "order.paid" }))).toEqual({
    to: "/groups/$subject/$group",
    params: { subject: "order.paid", group: "billing" },
  });
  expect(addressOf(found("node", { name: "b1-1", broker_group: "b1" })).params).toEqual({ name: "b1" });
  expect(addressOf(found("message", message))).toEqual({
    to: "/trace/$subject/$brokerGroup/$sequence",
    params: { subject: "order.paid", brokerGroup: "b1", sequence: "17" },
  });
  expect(addressOf(found("dead_letter", { ...message, text: "billing" }))).toEqual({
    to: "/dead-letters/$subject/$group",
    params: { subject: "order.paid", group: "billing" },
    search: { letter: "b1:17" },
  });
  expect(addressOf(found("user", { name: "ada" }))).toEqual({ to: "/users", search: { search: "ada" } });
});

test("groups of one name are told apart by their subject", () => {
  expect(hintOf(found("consumer_group", { subject: "order.paid", text: "about it" }))).toBe("order.paid");
  expect(hintOf(found("subject", { text: "paid orders" }))).toBe("paid orders");
});

test("case and blanks around do not matter", () => {
  expect(fits("Consumer groups", " GROUP ")).toBe(true);
  expect(fits("Subjects", "group")).toBe(false);
  expect(fits("order.created", "created  order")).toBe(true);
  expect(fits("order.created", "order paid")).toBe(false);
});
