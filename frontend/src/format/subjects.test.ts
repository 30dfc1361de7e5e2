import { expect, test } from "vitest";
import { splitSubject } from "@/format/subjects";

test("a real name stays as it is", () => {
  expect(splitSubject("order.paid")).toEqual({ kind: "real", subject: "order.paid", group: "" });
});

test("retry and dead-letter subjects name the real one and the group", () => {
  expect(splitSubject("%RETRY%order.paid%billing")).toEqual({ kind: "retry", subject: "order.paid", group: "billing" });
  expect(splitSubject("%DEAD_RETRY%order.paid%billing")).toEqual({
    kind: "dead",
    subject: "order.paid",
    group: "billing",
  });
});

test("a name that does not fit the pattern is not taken apart", () => {
  expect(splitSubject("%RETRY%order.paid")).toEqual({ kind: "retry", subject: "%RETRY%order.paid", group: "" });
});
