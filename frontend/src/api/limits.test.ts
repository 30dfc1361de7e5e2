import { expect, test } from "vitest";
import { isWellFormed, limit, limitsOf } from "@/api/limits";
import { limitsIn } from "../../limits";

const FILE = `
components:
  schemas:
    NewThingRequest:
      properties:
        name: { type: string, minLength: 1, maxLength: 100 }
        tags: { type: array, maxItems: 20, items: { type: string, maxLength: 50 } }
        size: { type: integer, minimum: 1, maximum: 10 }
        code: { type: string, pattern: "^[0-9]+$" }
        note: { type: string }
    Thing:
      properties:
        name: { type: string, maxLength: 100 }
`;

test("the limits of requests are read from the OpenAPI file, and nothing else of it", () => {
  expect(limitsIn(FILE)).toEqual({
    NewThingRequest: {
      name: { minLength: 1, maxLength: 100 },
      tags: { maxItems: 20, items: { maxLength: 50 } },
      size: { minimum: 1, maximum: 10 },
      code: { pattern: "^[0-9]+$" },
    },
  });
});

test("the browser has the limits that the API checks", () => {
  expect(limitsOf("NewSubjectRequest", "name")).toEqual({ minLength: 1, maxLength: 100 });
  expect(limit("NewSubjectRequest", "messages_per_second", "maximum")).toBe(10_000_000);
});

test("a limit that is gone is no silent Infinity", () => {
  expect(() => limit("NewSubjectRequest", "name", "maximum")).toThrow("NewSubjectRequest.name has no maximum");
});

test("a text is well-formed if it has the pattern of its field, or if there is no text or no pattern", () => {
  const isUrl = (text: string) => isWellFormed(limitsOf("NewAlertChannelRequest", "url"), text);
  expect(["https://example.com/hook?a=b", " http://[fd12::1]:8080 ", " "].map(isUrl)).toEqual([true, true, true]);
  expect(["ftp://example.com", "https://u:p@example.com", "https://example.com/a b"].map(isUrl)).not.toContain(true);
  expect(isWellFormed({}, "\t%")).toBe(true);
});
