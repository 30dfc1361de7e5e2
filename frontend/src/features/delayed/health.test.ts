import { expect, test } from "vitest";
import { delayHealth } from "@/features/delayed/health";

const node = (more: object) => ({ kind: "delay", is_master: true, reason: null, pending: 3, overdue: 0, ...more });

test("masters of delay groups are summed, brokers and slaves are not", () => {
  const { nodes, pending, latenessP99 } = delayHealth({
    nodes: {
      a: node({ lateness_p99_seconds: 0.2 }),
      b: node({ lateness_p99_seconds: 1.5 }),
      slave: node({ is_master: false }),
      broker: node({ kind: "broker" }),
    },
  });
  expect(nodes).toHaveLength(2);
  expect(pending).toEqual({ value: 6, reason: null });
  expect(latenessP99.value).toBe(1.5);
});

test("one group that was not measured makes the sum unknown, with its reason", () => {
  const { pending } = delayHealth({
    nodes: { a: node({}), b: node({ pending: null, reason: "d2-a does not answer" }) },
  });
  expect(pending).toEqual({ value: null, reason: "d2-a does not answer" });
});

test("no delay group is nothing known, not zero", () => {
  expect(delayHealth({}).pending.value).toBeNull();
});
