const RELOADED_AT = "qmq.reloaded_at";
const AGAIN_AFTER_MS = 60_000;

/**
 * A part of the page that can't be loaded mostly means that a newer build took this one's place: the page is loaded
 * again, once a minute at most. If that does not help, the error is shown.
 */
export function reloadOnNewBuild(
  page: Pick<Window, "addEventListener" | "sessionStorage" | "location">,
  nowMs: () => number,
) {
  page.addEventListener("vite:preloadError", (event) => {
    const last = Number(page.sessionStorage.getItem(RELOADED_AT) ?? 0);
    if (nowMs() - last < AGAIN_AFTER_MS) return;
    page.sessionStorage.setItem(RELOADED_AT, String(nowMs()));
    event.preventDefault();
    page.location.reload();
  });
}
