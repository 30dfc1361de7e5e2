import { expect, test } from "vitest";
import { applyStep, previewStep, tagsAfter } from "@/features/subjects/bulk";
import { answer } from "@/test/mount";

const { signal } = new AbortController();
const subject = (name: string) => ({ name, owner: null, tags: ["eu"], is_archived: false });
const said = (target: string, dryRun: boolean, isChange = true) => ({
  target,
  dry_run: dryRun,
  is_change: isChange,
  before: { owner: null },
  after: { owner: "shop" },
  version: "2",
  notes: [],
});
const read = (name: string) => Response.json(subject(name), { headers: { ETag: '"v1"' } });
const problem = (status: number, code: string) => Response.json({ code, title: code }, { status });

test("tags are added and taken away, each once", () => {
  expect(tagsAfter(["eu", "old"], ["us", "eu"], ["old", "never there"])).toEqual(["eu", "us"]);
});

test("the preview of each subject is the API's dry run; one that can't be changed is reported, the others are previewed", async () => {
  const { asked } = answer({
    "GET /api/v1/subjects/a/": () => read("a"),
    "GET /api/v1/subjects/b/": () => read("b"),
    "PATCH /api/v1/subjects/a/": said("a", true),
    "PATCH /api/v1/subjects/b/": () => problem(403, "access.denied"),
  });
  const { found, next } = await previewStep({ kind: "owner", owner: "shop" }, ["a", "b"])(undefined, signal);
  expect(next).toBeNull();
  expect(found.map(({ subject: name, etag, problem: why }) => [name, etag, why?.code])).toEqual([
    ["a", '"v1"', undefined],
    ["b", null, "access.denied"],
  ]);
  const changes = asked.filter(({ method }) => method === "PATCH");
  expect(changes.every(({ url }) => url.searchParams.get("dry_run") === "true")).toBe(true);
});

test("the work goes subject by subject; one that is done already is no problem", async () => {
  let tries = 0;
  const { asked } = answer({
    "GET /api/v1/subjects/a/": () => read("a"),
    "POST /api/v1/subjects/a/archive/": (url: URL) => {
      tries += 1;
      return url.searchParams.get("dry_run") === "true" ? said("a", true, false) : problem(412, "change.stale");
    },
  });
  const preview = [{ subject: "a", etag: '"v1"', change: null, problem: null }];
  const step = applyStep({ kind: "archive" }, [...preview, ...preview], "season is over");
  const { found, next } = await step(undefined, signal);
  expect([tries, next]).toEqual([2, "1"]);
  expect(found[0]?.problem).toBeNull();
  expect(found[0]?.change?.is_change).toBe(false);
  expect(asked.find(({ method }) => method === "POST")?.body).toEqual({ reason: "season is over" });
});

test("one that somebody else changed is told", async () => {
  answer({
    "GET /api/v1/subjects/a/": () => read("a"),
    "POST /api/v1/subjects/a/archive/": (url: URL) =>
      url.searchParams.get("dry_run") === "true" ? said("a", true) : problem(412, "change.stale"),
  });
  const preview = [{ subject: "a", etag: '"v1"', change: null, problem: null }];
  const { found } = await applyStep({ kind: "archive" }, preview, "")(undefined, signal);
  expect(found[0]?.problem?.code).toBe("change.stale");
});
