import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { RuleDialog } from "@/features/alerts/RuleDialog";
import { RuleList } from "@/features/alerts/RuleList";
import type { Rule } from "@/features/alerts/queries";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const rule = (more: object) => ({
  id: "3",
  name: "Slow billing",
  kind: "lag",
  target: "orders",
  threshold: 100,
  clear_threshold: 80,
  for_seconds: 60,
  clear_for_seconds: 0,
  window_seconds: 600,
  severity: "critical",
  channels: ["mail"],
  is_notifying: true,
  owner: null,
  is_enabled: true,
  is_builtin: false,
  firing: 0,
  version: "1",
  created_at: "2026-11-21T10:00:00Z",
  updated_at: "2026-11-21T10:00:00Z",
  ...more,
});
const preview = (more: object) => ({
  matched: 104,
  above: 1,
  unmeasured: 2,
  targets: [{ target: "orders/billing", value: 1_152, retries: 12 }],
  past: {
    count: 3,
    targets_count: 1,
    targets: [{ target: "orders/billing", count: 3 }],
    spans: [{ stored_in: "live_history", begin: "2026-11-21T09:00:00Z", end: "2026-11-21T10:00:00Z" }],
    left_out: 4,
  },
  fired: 2,
  reason: null,
  ...more,
});

const list = (...results: object[]) => ({ results, next: null, previous: null });

async function edit(answers: object, more: object = {}) {
  const { asked } = answer({
    "GET /api/v1/me/": me({ teams: [] }),
    "GET /api/v1/alert-channels/": list({ name: "mail", is_enabled: true }, { name: "old", is_enabled: false }),
    "GET /api/v1/alert-rules/preview/": preview({}),
    "PATCH /api/v1/alert-rules/3/": {
      target: "3",
      dry_run: true,
      is_change: true,
      before: { threshold: 100 },
      after: { threshold: 200 },
      version: "1",
      notes: [],
    },
    ...answers,
  });
  await mount(() => <RuleDialog rule={rule(more) as Rule} onClose={() => undefined} />);
  await screen.findByLabelText(/Fires above/);
  return asked;
}

async function showPreview() {
  await userEvent.click(screen.getByText("Preview"));
}

test("a rule's preview says whether it would fire now, and how often it would have", async () => {
  const asked = await edit({});
  const threshold = screen.getByLabelText(/Fires above/);
  await userEvent.clear(threshold);
  await userEvent.type(threshold, "200");
  await showPreview();
  expect(await screen.findByText(/Would fire now: 1 of 104 targets meets the condition/)).toHaveTextContent(
    "lasted 1m",
  );
  expect(screen.getAllByRole("listitem").map(({ textContent }) => textContent)).toContain(
    "orders/billing 1,152 (12 pending retries)",
  );
  expect(screen.getByText("2 targets can't be measured now.")).toBeVisible();
  expect(screen.getByText(/Would have fired 3 times in the last 1h/)).toBeVisible();
  expect(screen.getByText(/covers less than 24 hours/)).toBeVisible();
  expect(screen.getByText("The rule as it was fired 2 times in the last 24 hours.")).toBeVisible();
  expect(screen.getByText("4 more targets were not evaluated for the past.")).toBeVisible();
  const query = asked.find(({ url }) => url.pathname.endsWith("/preview/"))?.url.searchParams;
  expect([query?.get("threshold"), query?.get("rule")]).toEqual(["200", "3"]);
});

test("a preview without values says that it does not know", async () => {
  const past = { count: 0, targets_count: 0, targets: [], spans: [], left_out: 0 };
  await edit({
    "GET /api/v1/alert-rules/preview/": preview({ above: 0, targets: [], reason: "Redis is not responding", past }),
  });
  await showPreview();
  expect(await screen.findByText(/unknown. Redis is not responding/)).toBeVisible();
  expect(screen.getByText(/no past values of this condition are stored/)).toBeVisible();
  expect(screen.queryByText(/Would not/)).toBeNull();
});

test("a rule that notifies no one is marked in its dialog and in the preview", async () => {
  await edit({}, { channels: ["old"], is_notifying: false });
  expect(await screen.findByText(/All channels of this rule are disabled/)).toBeVisible();
  await showPreview();
  await waitFor(() => expect(screen.getAllByText(/All channels of this rule are disabled/)).toHaveLength(2));
});

test("a rule that notifies no one is marked in the list", async () => {
  answer({
    "GET /api/v1/me/": me({ teams: [] }),
    "GET /api/v1/alert-rules/": list(rule({}), rule({ id: "4", name: "Old", channels: ["old"], is_notifying: false })),
  });
  await mount(RuleList);
  expect(await screen.findByText("no one is notified")).toBeVisible();
});
