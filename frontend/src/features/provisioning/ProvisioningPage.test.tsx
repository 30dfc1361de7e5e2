import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { DOCUMENT_BYTES_MAX } from "@/features/provisioning/document";
import ProvisioningPage from "@/features/provisioning/ProvisioningPage";
import { answer, mount } from "@/test/mount";

const TEXT = '{"subjects": ["old", "new"]}';
const step = (action: string, target: string) => ({
  kind: "subject",
  action,
  target,
  before: null,
  after: { tags: ["a"] },
});
const previewed = (more: object = {}) => ({
  dry_run: true,
  is_change: true,
  steps: [step("create", "new"), step("keep", "kept")],
  drift: ["new/beside"],
  ...more,
});

async function write(text: string) {
  fireEvent.change(await screen.findByRole("textbox", { name: "Document" }), { target: { value: text } });
}

test("a preview is shown, applied after it was confirmed, and then there is nothing to do", async () => {
  let isApplied = false;
  const { asked } = answer({
    "PUT /api/v1/apply/": (url: URL) => {
      if (isApplied) return previewed({ is_change: false, steps: [step("keep", "new")], drift: [] });
      if (url.searchParams.get("dry_run") === "false") isApplied = true;
      return previewed();
    },
  });
  await mount(ProvisioningPage, "/provisioning");
  await write(TEXT);
  expect(screen.getByRole("button", { name: "Apply…" })).toBeDisabled();
  await userEvent.click(screen.getByRole("button", { name: "Preview" }));
  expect(await screen.findByText("To create")).toBeInTheDocument();
  expect(screen.getByText("new/beside")).toBeInTheDocument();
  expect(isApplied).toBe(false);
  await userEvent.click(screen.getByRole("button", { name: "Apply…" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.type(await within(dialog).findByLabelText("Reason (optional)"), "new shop");
  await userEvent.click(within(dialog).getByRole("button", { name: "Apply" }));
  expect(await screen.findByText("No changes")).toBeInTheDocument();
  const real = asked.filter(({ url }) => url.searchParams.get("dry_run") === "false");
  expect(real.map(({ url, body }) => [url.searchParams.get("reason"), body])).toEqual([["new shop", JSON.parse(TEXT)]]);
});

test("archiving takes the name", async () => {
  answer({ "PUT /api/v1/apply/": previewed({ steps: [step("archive", "old")] }) });
  await mount(ProvisioningPage, "/provisioning");
  await write(TEXT);
  await userEvent.click(screen.getByRole("button", { name: "Preview" }));
  await userEvent.click(await screen.findByRole("button", { name: "Apply…", hidden: false }));
  const dialog = await screen.findByRole("dialog");
  const apply = await within(dialog).findByRole("button", { name: "Apply" });
  await userEvent.type(await within(dialog).findByLabelText("Type old to confirm"), "ol");
  expect(apply).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type old to confirm"), "d");
  await waitFor(() => expect(apply).toBeEnabled());
});

test("a preview of another text is no preview", async () => {
  answer({ "PUT /api/v1/apply/": previewed() });
  await mount(ProvisioningPage, "/provisioning");
  await write(TEXT);
  await userEvent.click(screen.getByRole("button", { name: "Preview" }));
  expect(await screen.findByText("To create")).toBeInTheDocument();
  await write(`${TEXT} `);
  expect(screen.queryByText("To create")).toBeNull();
  expect(screen.getByRole("button", { name: "Apply…" })).toBeDisabled();
});

test("an error leads to its line", async () => {
  answer({
    "PUT /api/v1/apply/": Response.json(
      { code: "request.invalid", title: "", detail: "the YAML can't be read: line 1, column 1; line 2, column 3" },
      { status: 400 },
    ),
  });
  await mount(ProvisioningPage, "/provisioning");
  await write('{\n  "subjects": 5\n}');
  await userEvent.click(screen.getByRole("button", { name: "Preview" }));
  await userEvent.click(await screen.findByRole("button", { name: "Go to line 2" }));
  const field = screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Document" });
  expect(field.value.slice(field.selectionStart, field.selectionEnd)).toBe('  "subjects": 5');
});

test("a file that is too large is refused before it is read", async () => {
  const { asked } = answer({});
  const { container } = await mount(ProvisioningPage, "/provisioning");
  await screen.findByRole("textbox", { name: "Document" });
  const file = new File(["x".repeat(DOCUMENT_BYTES_MAX + 1)], "all.yaml");
  const drop = container.querySelector("[data-drop]");
  if (drop) fireEvent.drop(drop, { dataTransfer: { files: [file], types: ["Files"] } });
  expect(await screen.findByText(/all.yaml is 1 MiB; the limit is 1 MiB/)).toBeInTheDocument();
  expect(asked).toHaveLength(0);
});
