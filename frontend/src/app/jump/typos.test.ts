import { expect, test } from "vitest";
import { editsBetween } from "@/app/jump/typos";

test.each([
  ["Subjects", "subj", 0],
  ["Subjects", "sbujects", 1],
  ["Dead letters", "daed leters", 2],
  ["Consumer groups", "cnosuemr", 2],
  ["Sign out", "singout", null],
  ["Sign out", "sing", 1],
  ["Audit log", "audti", 1],
  ["消费进度", "消肥进度", 1],
  ["Alerts", "ale", 0],
  ["Alerts", "alx", null],
  ["Alerts", "axxrts", null],
  ["Alerts", "x".repeat(33), null],
])("%s is meant by %s with %s edits", (name, text, edits) => {
  expect(editsBetween(text, name)).toBe(edits);
});
