import { beforeEach, expect, test } from "vitest";
import { RECENT_MAX, recentOf, remember } from "@/app/jump/recent";

const to = (id: string) => ({ id, kind: "subject", label: id, hint: "", address: { to: "/subjects" as const } });

beforeEach(() => localStorage.clear());

test("the newest comes first, once, and not for ever", () => {
  for (let n = 0; n <= RECENT_MAX; n += 1) remember("ada", to(String(n)));
  remember("ada", to("3"));
  expect(recentOf("ada").map(({ id }) => id)).toEqual(["3", "6", "5", "4", "2", "1"]);
});

test("everybody has their own", () => {
  remember("ada", to("secret"));
  expect(recentOf("bob")).toEqual([]);
});

test("what can't be read is nothing", () => {
  localStorage.setItem("qmq.jumps.ada", "{");
  expect(recentOf("ada")).toEqual([]);
  localStorage.setItem("qmq.jumps.ada", JSON.stringify([{ id: 1 }, to("x")]));
  expect(recentOf("ada").map(({ id }) => id)).toEqual(["x"]);
});
