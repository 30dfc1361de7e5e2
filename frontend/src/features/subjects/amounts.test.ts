import { expect, test } from "vitest";
import { bytesText, hoursText, parseBytes, parseCount, parseHours } from "@/features/subjects/amounts";

test.each([
  ["1048576", 1_048_576],
  ["10 MiB", 10_485_760],
  ["10mib", 10_485_760],
  ["1.5 KiB", 1536],
  ["2 MB", 2_000_000],
  ["1 GiB", 1_073_741_824],
  ["ten", null],
  ["10 XiB", null],
  ["-1", null],
  ["", null],
])("bytes: %s", (text, value) => expect(parseBytes(text)).toBe(value));

test.each([
  ["72", 72],
  ["72 h", 72],
  ["3d", 72],
  ["30 min", 0.5],
  ["1 w", 168],
  ["soon", null],
])("hours: %s", (text, value) => expect(parseHours(text)).toBe(value));

test.each([
  ["1,000", 1000],
  ["1 000", 1000],
  ["1.5", null],
  ["", null],
])("counts: %s", (text, value) => expect(parseCount(text)).toBe(value));

test("what is written is read back as the same number", () => {
  for (const value of [1, 1000, 1024, 1_000_000, 10 * 1024 ** 2, 3 * 1024 ** 3])
    expect(parseBytes(bytesText(value))).toBe(value);
  for (const value of [0.5, 1, 24, 36, 72]) expect(parseHours(hoursText(value))).toBe(value);
  expect(bytesText(10 * 1024 ** 2)).toBe("10 MiB");
  expect(hoursText(72)).toBe("3 d");
});
