import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { mount } from "@/test/mount";
import { Loading } from "@/ui/page/loaded";

test("what is loading has a role, so that its name is read", async () => {
  await mount(() => <Loading label="Loading broker group" />);
  expect(await screen.findByRole("progressbar", { name: "Loading broker group" })).toBeInTheDocument();
});
