import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import AlertsPage from "@/features/alerts/AlertsPage";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const alert = (more: object) => ({
  id: "7",
  rule: "Lag [all]",
  rule_id: "3",
  kind: "time_lag",
  target: "order.paid/billing",
  owner: null,
  severity: "critical",
  threshold: 900,
  state: "firing",
  since: "2026-11-21T10:00:00Z",
  fired_at: "2026-11-21T10:01:00Z",
  resolved_at: null,
  resolution: null,
  value: 1_000,
  last_value: 1_234,
  retries: null,
  reason: null,
  last_seen_at: "2026-11-21T10:10:00Z",
  is_silenced: false,
  acknowledged_by: null,
  acknowledged_at: null,
  acknowledgement: null,
  notified: 0,
  not_notified: 0,
  version: "2",
  ...more,
});
const list = (...results: object[]) => ({ results, next: null, previous: null });
const change = (more: object) => ({
  target: "x",
  dry_run: true,
  is_change: true,
  before: null,
  after: { ends_at: "later" },
  version: "3",
  notes: [],
  ...more,
});

beforeEach(() => {
  vi.stubGlobal(
    "WebSocket",
    class {
      close() {
        return;
      }
    },
  );
});

test("a value that can't be measured is unknown with its reason, and never the one it fired with", async () => {
  answer({
    "GET /api/v1/me/": me({ teams: [] }),
    "GET /api/v1/alerts/": list(alert({ last_value: null, reason: "b1 does not answer" })),
  });
  await mount(AlertsPage, "/alerts");
  expect(await screen.findByLabelText("unknown: b1 does not answer")).toHaveTextContent("—");
  expect(screen.queryByText(/16m/)).toBeNull();
});

test("pending retries are shown with the value", async () => {
  answer({ "GET /api/v1/me/": me({ teams: [] }), "GET /api/v1/alerts/": list(alert({ retries: 12 })) });
  await mount(AlertsPage, "/alerts");
  expect(await screen.findByText(/12 pending retries/)).toBeInTheDocument();
});

test("an alert leads to its target; whoever only reads finds nothing to do", async () => {
  answer({ "GET /api/v1/me/": me({ teams: [] }), "GET /api/v1/alerts/": list(alert({})) });
  await mount(AlertsPage, "/alerts");
  expect(await screen.findByRole("link", { name: "order.paid/billing" })).toHaveAttribute(
    "href",
    "/groups/order.paid/billing",
  );
  expect(screen.getByText("20m 34s")).toBeInTheDocument();
  expect(screen.queryByRole("button", { name: /Acknowledge/ })).toBeNull();
});

test("a silence of an alert means it alone, and is previewed before it is made", async () => {
  const { asked } = answer({
    "GET /api/v1/me/": me({ teams: [], rights: ["read", "change_alerts"] }),
    "GET /api/v1/alerts/": list(alert({})),
    "POST /api/v1/silences/": change({}),
  });
  await mount(AlertsPage, "/alerts");
  await userEvent.click(await screen.findByRole("button", { name: "Silence Lag [all]: order.paid/billing" }));
  const dialog = await screen.findByRole("dialog");
  const preview = within(dialog).getByRole("button", { name: "Preview" });
  expect(preview).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText(/^Reason/), "restart");
  await userEvent.click(within(dialog).getByText("4 hours"));
  await userEvent.click(preview);
  await userEvent.click(await within(dialog).findByRole("button", { name: "Silence" }));
  await waitFor(() => expect(asked.filter(({ method }) => method === "POST")).toHaveLength(2));
  const [previewed, made] = asked.filter(({ method }) => method === "POST");
  expect(previewed?.url.searchParams.get("dry_run")).toBe("true");
  expect(made?.url.searchParams.get("dry_run")).toBe("false");
  expect(made?.body).toMatchObject({ rule: "Lag [[]all]", target: "order.paid/billing", reason: "restart" });
});

test("a rule is switched off by its version and its typed name", async () => {
  const rule = { id: "3", name: "Lag", kind: "lag", target: "*", threshold: 1_000, clear_threshold: 800 };
  const more = { for_seconds: 60, clear_for_seconds: 0, severity: "warning", channels: [], version: "5" };
  const { asked } = answer({
    "GET /api/v1/me/": me({ teams: [], rights: ["read", "change_alerts"] }),
    "GET /api/v1/alert-rules/": list({ ...rule, ...more, is_enabled: true, is_builtin: true, firing: 0, owner: null }),
    "PATCH /api/v1/alert-rules/3/": change({ before: { is_enabled: true }, after: { is_enabled: false } }),
  });
  await mount(AlertsPage, "/alerts?tab=rules");
  expect(await screen.findByText("above 1,000 for 1m")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Actions for Lag" }));
  // Without a layout the library takes the menu's button for scrolled away, and hides the menu.
  await userEvent.click(await screen.findByRole("menuitem", { name: "Disable", hidden: true }));
  expect(screen.queryByText("Delete")).toBeNull();
  const off = await screen.findByRole("button", { name: "Disable" });
  expect(off).toBeDisabled();
  await userEvent.type(screen.getByLabelText("Type Lag to confirm"), "Lag");
  await userEvent.click(off);
  const sent = () => asked.filter(({ method }) => method === "PATCH");
  await waitFor(() => expect(sent()).toHaveLength(2));
  expect(sent().map(({ url, body }) => [url.searchParams.get("dry_run"), body])).toEqual([
    ["true", { is_enabled: false, reason: "" }],
    ["false", { is_enabled: false, reason: "" }],
  ]);
});
