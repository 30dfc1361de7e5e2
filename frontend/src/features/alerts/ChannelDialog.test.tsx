import { act, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test } from "vitest";
import { ChannelDialog } from "@/features/alerts/ChannelDialog";
import { setLanguage } from "@/i18n";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

afterEach(() => setLanguage("en"));

test("a wrong URL is shown at its field, in both languages, before anything is sent", async () => {
  const { asked } = answer({ "GET /api/v1/me/": me({ teams: [] }) });
  await mount(() => <ChannelDialog channel={null} onClose={() => undefined} />);
  await userEvent.type(await screen.findByLabelText(/^Name/), "pager");
  const url = screen.getByLabelText(/^URL/);
  await userEvent.type(url, "https://user:password@example.com/hook");
  expect(url).toBeInvalid();
  expect(url).toHaveAccessibleDescription(/without spaces, username, password or #fragment/);
  expect(screen.getByRole("button", { name: "Preview" })).toBeDisabled();
  await act(() => setLanguage("zh"));
  expect(url).toHaveAccessibleDescription(/不含空格、用户名、密码和 #片段/);
  await userEvent.clear(url);
  await userEvent.type(url, "https://example.com/hook");
  expect(url).toBeValid();
  expect(screen.getByRole("button", { name: "预览变更" })).toBeEnabled();
  expect(asked.filter(({ method }) => method === "POST")).toEqual([]);
});
