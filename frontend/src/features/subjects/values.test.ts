import { expect, test } from "vitest";
import { changesOf, EMPTY, formOf, problemsOf, valuesOf } from "@/features/subjects/values";

const subject = {
  name: "order.paid",
  description: "Paid orders",
  owner: "shop",
  tags: ["eu"],
  messages_per_second: 500,
  bytes_per_second: 10_485_760,
  retention_hours: 72,
  allowed_groups: null,
  body_format: "avro",
  body_schema: '"string"',
};

test("a form shows what is there and says the same back", () => {
  const form = formOf(subject);
  expect(form.bytesPerSecond).toBe("10 MiB");
  expect(form.retention).toBe("3 d");
  expect({ name: form.name, ...valuesOf(form) }).toEqual(subject);
  expect(changesOf(form, { ...form })).toEqual({});
});

test("only what differs is sent; an emptied limit is null, not zero", () => {
  const form = formOf(subject);
  expect(changesOf(form, { ...form, messagesPerSecond: "", owner: "", tags: ["eu", "us"] })).toEqual({
    messages_per_second: null,
    owner: null,
    tags: ["eu", "us"],
  });
});

test("a format without schemas has none", () => {
  const form = formOf(subject);
  expect(changesOf(form, { ...form, bodyFormat: "msgpack" })).toEqual({ body_format: "msgpack", body_schema: "" });
});

test("nobody allowed is something else than everybody allowed", () => {
  const form = formOf(subject);
  expect(changesOf(form, { ...form, isRestricted: true })).toEqual({ allowed_groups: [] });
  expect(formOf({ ...subject, allowed_groups: [] }).isRestricted).toBe(true);
});

test.each([
  [{ name: "" }, { name: "name_empty" }],
  [{ name: "a/b" }, { name: "name_breaking" }],
  [{ name: "a b" }, { name: "name_breaking" }],
  [{ name: "%RETRY%a%b" }, { name: "name_percent" }],
  [{ name: "n".repeat(101) }, { name: "name_long" }],
  [{ description: "d".repeat(501) }, { description: "description_long" }],
  [{ tags: ["t".repeat(51)] }, { tags: "tags" }],
  [{ messagesPerSecond: "0" }, { messagesPerSecond: "messages_per_second" }],
  [{ messagesPerSecond: "many" }, { messagesPerSecond: "messages_per_second" }],
  [{ bytesPerSecond: "200 GiB" }, { bytesPerSecond: "bytes_per_second" }],
  [{ retention: "3 years" }, { retention: "retention" }],
  [{ retention: "0" }, { retention: "retention" }],
  [{ isRestricted: true, allowedGroups: ["a/b"] }, { allowedGroups: "allowed_groups" }],
  [{ isRestricted: false, allowedGroups: ["a/b"] }, {}],
  [{ messagesPerSecond: " ", bytesPerSecond: "", retention: "" }, {}],
])("problems of %o", (values, problems) => {
  expect(problemsOf({ ...EMPTY, name: "order.paid", ...values })).toEqual(problems);
});
