import { expect, test } from "vitest";
import { listed, personName } from "@/format/names";

test.each([
  ["静", "陈", "陈静"],
  ["Ada", "Lovelace", "Ada Lovelace"],
  ["", "Lovelace", "Lovelace"],
  ["", "", ""],
])("%s %s is %s", (first_name, last_name, name) => {
  expect(personName({ first_name, last_name })).toBe(name);
});

test.each([
  ["en", ["tags"], "tags"],
  ["en", ["properties", "the body", "tags"], "properties, the body, and tags"],
  ["zh", ["属性", "消息体", "标签"], "属性、消息体和标签"],
])("in %s a sentence lists %j as %s", (language, words, sentence) => {
  expect(listed(words, language)).toBe(sentence);
});
