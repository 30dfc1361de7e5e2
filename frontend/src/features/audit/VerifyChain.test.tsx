import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { VerifyChain } from "@/features/audit/VerifyChain";
import { answer, mount } from "@/test/mount";

const verdict = (more: object) => ({
  is_whole: true,
  checked: 5_000,
  last_id: "5000",
  is_end: false,
  broken_id: null,
  problem: "",
  ...more,
});

test("the chain is followed stretch by stretch to its end", async () => {
  const { asked } = answer({
    "GET /api/v1/audit/verify/": (url: URL) =>
      url.searchParams.get("after") === "5000" ? verdict({ checked: 20, last_id: "5020", is_end: true }) : verdict({}),
  });
  await mount(VerifyChain, "/audit");
  await userEvent.click(screen.getByRole("button", { name: "Verify" }));
  expect(await screen.findByText(/^All 5,020 entries are unchanged/)).toBeInTheDocument();
  expect(asked.map(({ url }) => url.searchParams.get("after"))).toEqual([null, "5000"]);
});

test("the first broken entry is named and nothing after it is asked", async () => {
  const { asked } = answer({
    "GET /api/v1/audit/verify/": verdict({ is_whole: false, broken_id: "17", problem: "its digest is another" }),
  });
  await mount(VerifyChain, "/audit");
  await userEvent.click(screen.getByRole("button", { name: "Verify" }));
  expect(await screen.findByText("Entry 17 does not match the hash chain")).toBeInTheDocument();
  expect(asked).toHaveLength(1);
});
