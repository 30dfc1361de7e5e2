import { expect, test, vi } from "vitest";
import { reloadOnNewBuild } from "@/app/newBuild";

test("a part that is gone loads the page again, but not for ever", () => {
  let listener: ((event: Event) => void) | undefined;
  const reload = vi.fn();
  let now = 1_000_000;
  reloadOnNewBuild(
    {
      addEventListener: (_: string, added: unknown) => {
        listener = added as (event: Event) => void;
      },
      sessionStorage,
      location: { reload } as unknown as Location,
    },
    () => now,
  );
  const fail = () => {
    const event = new Event("vite:preloadError", { cancelable: true });
    listener?.(event);
    return event.defaultPrevented;
  };
  expect(fail()).toBe(true);
  expect(fail()).toBe(false);
  now += 60_000;
  expect(fail()).toBe(true);
  expect(reload).toHaveBeenCalledTimes(2);
});
