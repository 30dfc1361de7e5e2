import { expect, test } from "vitest";
import { cell, hexDump, isJson, prettyJson, preview, propertiesOf, readable } from "@/ui/message/decode";

test("the body comes first, the system's properties last", () => {
  const names = propertiesOf({ qmq_times: "2", region: "eu", data: "{}", amount: "5" }).map(({ name }) => name);
  expect(names).toEqual(["data", "amount", "region", "qmq_times"]);
});

test("pieces of a long text are joined in their order, past ten too", () => {
  const raw = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`data#part${n}`, `<${n}>`]));
  expect(propertiesOf(raw)).toEqual([
    { name: "data", value: Array.from({ length: 12 }, (_, n) => `<${n}>`).join(""), isSystem: false },
  ]);
});

test("pieces with a hole are shown as they are", () => {
  expect(propertiesOf({ "data#part0": "a", "data#part2": "c" }).map(({ name }) => name)).toEqual([
    "data#part0",
    "data#part2",
  ]);
});

test("codes of JSON are the letters that they stand for", () => {
  const cases: Record<string, string> = {
    '{"city": "\\u5317\\u4EAC"}': '{"city": "北京"}',
    '"caf\\u00e9 \\ud83d\\ude00"': '"café 😀"',
    // Its text ends, forms a line, changes the direction, is half a pair, or is no code.
    '"\\u0022 \\u005c \\u000a \\u202e \\ud83d \\u12 \\\\u5317"':
      '"\\u0022 \\u005c \\u000a \\u202e \\ud83d \\u12 \\\\u5317"',
  };
  for (const [json, shown] of Object.entries(cases)) expect(readable(json)).toBe(shown);
  expect(preview({ data: '{"city": "\\u5317"}' }).body).toBe('{"city": "北"}');
  expect(preview({ data: "\\u5317 as text" }).body).toBe("\\u5317 as text");
});

test("a preview is the body on one line, then the properties", () => {
  expect(preview({ x: "1", data: "a\n  b", qmq_times: "1" })).toEqual({ body: "a b", rest: "x=1" });
  expect(preview({ id: "7", b: "two\nlines", qmq_times: "1" })).toEqual({ body: "", rest: "b=two lines id=7" });
  expect(preview({ data: "x".repeat(500), y: "1" }, 10)).toEqual({ body: `${"x".repeat(10)}…`, rest: "" });
  expect(preview({ data: "xxxx", y: "z".repeat(99) }, 10)).toEqual({ body: "xxxx", rest: "y=zzzz…" });
});

test("JSON is objects and lists that parse", () => {
  expect(isJson(' {"a":1}')).toBe(true);
  expect(isJson("[]")).toBe(true);
  expect(isJson("12")).toBe(false);
  expect(isJson("{a:1}")).toBe(false);
});

test("pretty JSON keeps what parsing would lose", () => {
  const text = '{"id":12345678901234567890,"id":1.50,"text":"a, {b}: \\"c\\"","none":{},"list":[1,[]]}';
  const pretty = prettyJson(text, 1000).text;
  expect(pretty.replace(/\n\s*/g, "").replaceAll(": ", ":")).toBe(text.replaceAll(": ", ":"));
  expect(pretty).toContain("12345678901234567890");
  expect(pretty.split("\n")).toEqual([
    "{",
    '  "id": 12345678901234567890,',
    '  "id": 1.50,',
    '  "text": "a, {b}: \\"c\\"",',
    '  "none": {},',
    '  "list": [',
    "    1,",
    "    []",
    "  ]",
    "}",
  ]);
});

test.each([
  ["20,000 levels", "[".repeat(20_000) + "]".repeat(20_000)],
  ["1,000,000 elements under 40 levels", `${"[".repeat(40)}${"1,".repeat(999_999)}1${"]".repeat(40)}`],
  ["one string of 8,000,000 characters", `["${'\\"a'.repeat(2_666_666)}"]`],
  ["8,000,000 spaces", `[${" ".repeat(8_000_000)}1]`],
])("%s are laid out up to the limit, with bounded indents", (_, text) => {
  expect(isJson(text)).toBe(true);
  const shown = prettyJson(text, 200_000);
  expect(shown.isCut).toBe(!text.includes("  "));
  expect(shown.text.length).toBeLessThanOrEqual(200_000);
  expect(Math.max(...shown.text.split("\n").map((line) => line.search(/\S|$/)))).toBeLessThanOrEqual(64);
});

test("cells, previews and hex cut before they work", () => {
  expect(cell("x".repeat(5000))).toHaveLength(1001);
  expect(preview({ "data#part0": "x".repeat(500), "data#part1": "y" }, 10).body).toBe(`${"x".repeat(10)}…`);
  expect(hexDump("é".repeat(1_000_000), 32).text.split("\n")).toHaveLength(2);
});

test("hex of a body in base64 shows its bytes", () => {
  expect(hexDump("AP8=", 16, true).text).toMatch(/^00000000 {2}00 ff /);
  expect(hexDump(btoa("x".repeat(17)), 16, true).isCut).toBe(true);
  expect(hexDump(btoa("x".repeat(16)), 16, true).isCut).toBe(false);
  expect(hexDump("no base64!", 16, true).text).toContain("no base64!");
});

test("hex shows bytes, not characters, and says when it is cut", () => {
  const dump = hexDump("é12345678901234567", 17);
  expect(dump.isCut).toBe(true);
  expect(hexDump("abc", 3).isCut).toBe(false);
  expect(dump.text.split("\n")).toEqual([
    "00000000  c3 a9 31 32 33 34 35 36  37 38 39 30 31 32 33 34  ..12345678901234",
    "00000010  35                                                5",
  ]);
});
