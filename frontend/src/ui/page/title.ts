/** The title of the browser's tab: the page's, behind how many alerts are firing. */
let page = "";
let firing = "";

function show(): void {
  document.title = [firing && `(${firing})`, page, page && "·", "PyQMQ"].filter(Boolean).join(" ");
}

export function setPageTitle(title: string): void {
  page = title;
  show();
}

/** `count`: "" when no alert is firing. */
export function setFiring(count: string): void {
  firing = count;
  show();
}
