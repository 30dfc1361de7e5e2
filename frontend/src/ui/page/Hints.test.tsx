import { fireEvent, screen, waitFor } from "@testing-library/react";
import { expect, test } from "vitest";
import { mount } from "@/test/mount";
import { Measured } from "@/ui/measure/Measured";

test("why a number is unknown is said on focus, and goes with Escape", async () => {
  await mount(() => <Measured value={null} reason="node b1 does not answer" />);
  const dash = await screen.findByText("—");
  fireEvent.focusIn(dash);
  expect(await screen.findByText("node b1 does not answer")).toBeInTheDocument();
  fireEvent.keyDown(document, { key: "Escape" });
  await waitFor(() => expect(screen.queryByText("node b1 does not answer")).not.toBeInTheDocument());
});
