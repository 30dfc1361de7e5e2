import { expect, test } from "vitest";
import { describe } from "@/features/overview/describe";

test("a state that changed is shown before and after", () => {
  const event = { kind: "broker_group.state", target: "g2", before: "read_write", after: "offline" };
  expect(describe(event)).toEqual({ kind: "broker_group.state", target: "g2", change: ["read_write", "offline"] });
  expect(describe({ kind: "broker_group.master", target: "g2", before: "", after: "g2-a" }).change).toEqual([
    "none",
    "g2-a",
  ]);
});

test("a node that can't be reached is shown with the reason, and its return without", () => {
  const away = { kind: "node.unreachable", target: "g2-a", before: null, after: "connection refused" };
  expect(describe(away)).toEqual({ kind: "node.unreachable", target: "g2-a", change: ["connection refused"] });
  const back = { kind: "node.reachable", target: "g2-a", before: "connection refused", after: null };
  expect(describe(back)).toEqual({ kind: "node.reachable", target: "g2-a", change: [] });
});

test("a job is overdue or no longer overdue", () => {
  expect(describe({ kind: "job.late", target: "moves", before: false, after: true }).kind).toBe("job.late");
  expect(describe({ kind: "job.late", target: "moves", before: true, after: false }).kind).toBe("job.on_time");
});
