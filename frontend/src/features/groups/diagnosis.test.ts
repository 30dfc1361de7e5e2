import { expect, test } from "vitest";
import en from "@/i18n/en/groups.json";
import zh from "@/i18n/zh/groups.json";
import { helpFor, sentencesOf, type Finding } from "@/features/groups/diagnosis";

const finding = (code: Finding["code"], values: Finding["values"], severity: Finding["severity"] = "warning") => ({
  code,
  severity,
  values,
});
const keys = (one: Finding) => sentencesOf(one, "en").map(({ key }) => key);

test("numbers are written as people read them", () => {
  const values = { arriving: 1.44, acked: 0.9, count: 1, needed: 2, seconds: 229 };
  expect(sentencesOf(finding("too_few_consumers", values), "en")[0]).toEqual({
    key: "too_few_consumers",
    values: { arriving: "1.4", acked: "0.9", count: 1, number: "1", needed: 2, seconds: "3m 49s" },
  });
  const [first] = sentencesOf(finding("consumers_paused", { consumers: ["a", "b"], count: 2 }), "en");
  expect(first?.values).toEqual({ consumers: "a, b", count: 2, number: "2" });
});

test("what is not known, and a lag of none, is not said", () => {
  expect(keys(finding("no_consumers", { lag: 1_234, arriving: 1.4 }))).toEqual(["no_consumers", "waiting", "arriving"]);
  expect(keys(finding("no_consumers", { lag: 0, arriving: null }))).toEqual(["no_consumers"]);
  expect(keys(finding("paused", { lag: null }))).toEqual(["paused"]);
  expect(keys(finding("draining", { lag: 5, seconds: null }))).toEqual(["draining", "waiting"]);
  expect(keys(finding("retry_loop", { failing: 1, attempts: 1, pending: null }))).toEqual(["retry_loop"]);
});

test("the plural follows the number that the sentence names", () => {
  const [, waiting] = sentencesOf(finding("stopped", { lag: 1_234, seconds: 65, count: 1 }), "en");
  expect(waiting?.values).toMatchObject({ count: 1_234, number: "1,234" });
  const [, pending] = sentencesOf(finding("retry_loop", { failing: 1, attempts: 1, pending: 7 }), "en");
  expect(pending?.values).toMatchObject({ count: 7, number: "7" });
});

test("the button that helps", () => {
  expect(helpFor(finding("broker_group_away", { broker_group: "g2", reason: "r" }))).toEqual({
    place: "broker_group",
    name: "g2",
  });
  expect(helpFor(finding("paused", { lag: 3 }))).toEqual({ dialog: "resume" });
  expect(helpFor(finding("consumer_stuck", { consumer: "c1", count: 8, seconds: 229 }))).toEqual({
    dialog: "pause_one",
    consumer: "c1",
  });
  expect(helpFor(finding("too_few_consumers", {}))).toEqual({ dialog: "start" });
  expect(helpFor(finding("retry_loop", {}))).toEqual({ place: "retries" });
  expect(helpFor(finding("dead_letters", {}))).toEqual({ place: "dead_letters" });
  expect(helpFor(finding("keeping_up", {}))).toBeNull();
});

test("each value that a sentence names is one that its finding has", () => {
  const all: Finding[] = [
    finding("broker_group_away", { broker_group: "g", reason: "r" }),
    finding("paused", { lag: 2 }),
    finding("consumers_paused", { consumers: ["a"], count: 2 }),
    finding("no_consumers", { lag: 2, arriving: 1 }),
    finding("consumer_stuck", { consumer: "c", count: 2, seconds: 1 }),
    finding("stopped", { lag: 2, seconds: 1, count: 2 }),
    finding("retry_loop", { failing: 1, attempts: 1, pending: 2 }),
    finding("slower", { now: 1, before: 1, seconds_ago: 1 }),
    finding("too_few_consumers", { arriving: 1, acked: 1, count: 2, needed: 2, seconds: 1 }),
    finding("growing", { lag: 2, seconds: 1 }),
    finding("dead_letters", { count: 2, seconds: 1 }),
    finding("pace_unknown", { reason: "r" }),
    finding("draining", { lag: 2, seconds: 1 }),
    finding("keeping_up", { lag: 2, seconds: 1 }),
    finding("unknown", { reason: "r" }),
  ];
  for (const texts of [en.diagnosis, zh.diagnosis] as Record<string, unknown>[]) {
    for (const { key, values } of all.flatMap((one) => sentencesOf(one, "en"))) {
      const text = String(texts[key] ?? texts[`${key}_other`]);
      for (const [, name] of text.matchAll(/\{\{(\w+)\}\}/g)) expect(Object.keys(values), text).toContain(name);
    }
  }
});
