import { expect, test } from "vitest";
import { ask, FAILURES_MAX, NO_SUMS, piecesOf, summed, type Order } from "@/features/dead_letters/work";
import { answer } from "@/test/mount";

const progress = (more: object = {}) => ({ ...NO_SUMS, notes: [], dry_run: true, stopped: null, next: null, ...more });
const order: Order = {
  subject: "order.paid",
  group: "billing",
  action: "replay",
  chosen: { kind: "all" },
  to: "group",
  otherSubject: "",
  edit: null,
  isForced: false,
  reason: "",
};
const REPLAY = "POST /api/v1/dead-letters/order.paid/billing/replay/";
const DELETE = "POST /api/v1/dead-letters/order.paid/billing/delete/";

test("letters are named by broker group, so many a request; large sequences stay texts", () => {
  expect(piecesOf(["g1:1", "g2:9007199254740993", "g1:2"], 2)).toEqual([
    { g1: ["1"], g2: ["9007199254740993"] },
    { g1: ["2"] },
  ]);
});

test("sums add up, and keep the first failures", () => {
  const failures = Array.from({ length: 80 }, (_, at) => ({ broker_group: "g", sequence: String(at), why: "no" }));
  const piece = { ...NO_SUMS, looked_at: 80, failed: 80, failures, unreachable: { g2: "away" } };
  const sums = summed(summed(NO_SUMS, piece), piece);
  expect([sums.looked_at, sums.failed, sums.failures.length]).toEqual([160, 160, FAILURES_MAX]);
  expect(sums.unreachable).toEqual({ g2: "away" });
});

test("all letters are asked for by the cursor of the answer before", async () => {
  const { asked } = answer({ [REPLAY]: progress({ next: "c2" }) });
  expect((await ask(order, undefined, true)).next).toBe("c2");
  await ask({ ...order, to: "subject", isForced: true, reason: "fixed" }, "c2", false);
  expect(asked[0]?.url.searchParams.get("dry_run")).toBe("true");
  expect(asked[0]?.body).toEqual({ all: true, limit: 200, cursor: null, to: "group", force: false });
  expect(asked[1]?.url.searchParams.get("dry_run")).toBe("false");
  expect(asked[1]?.body).toEqual({ all: true, limit: 200, cursor: "c2", to: "subject", force: true, reason: "fixed" });
});

test("a piece that ended early is asked for again, then the next", async () => {
  const keys = Array.from({ length: 250 }, (_, at) => `g1:${at}`);
  const some: Order = { ...order, action: "delete", chosen: { kind: "some", keys } };
  let stopped: string | null = "redis is away";
  const { asked } = answer({ [DELETE]: () => progress({ stopped }) });
  expect((await ask(some, undefined, false)).next).toBe("0");
  stopped = null;
  expect((await ask(some, "0", false)).next).toBe("1");
  expect((await ask(some, "1", false)).next).toBeNull();
  expect(asked[2]?.body).toEqual({ sequences: { g1: keys.slice(200).map((key) => key.slice(3)) }, limit: 200 });
});

test("an edited dead letter goes to another subject", async () => {
  const { asked } = answer({ [REPLAY]: progress() });
  const edit = { properties: [{ name: "data", text: "{}" }], tags: [], decoding: null };
  const chosen = { kind: "some", keys: ["g1:1"] } as const;
  await ask({ ...order, chosen, to: "other", otherSubject: " repairs ", edit }, undefined, true);
  expect(asked[0]?.body).toMatchObject({
    to: "other",
    other_subject: "repairs",
    sequences: { g1: ["1"] },
    edit: { properties: { data: "{}" }, tags: [] },
  });
});
