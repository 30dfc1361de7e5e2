import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

afterEach(cleanup);
// How long `findBy…` and `waitFor` look, on a busy machine too; what is there is found at once.
configure({ asyncUtilTimeout: 5_000 });

// What jsdom lacks and the component library asks for.
Object.defineProperty(window, "matchMedia", {
  value: (query: string) => ({
    matches: false,
    media: query,
    addEventListener: vi.fn(),
    removeEventListener: vi.fn(),
    addListener: vi.fn(),
    removeListener: vi.fn(),
    dispatchEvent: vi.fn(),
    onchange: null,
  }),
});
class NoResize implements ResizeObserver {
  observe(): void {
    return;
  }
  unobserve(): void {
    return;
  }
  disconnect(): void {
    return;
  }
}
window.ResizeObserver = NoResize;
window.HTMLElement.prototype.scrollIntoView = () => {
  return;
};
window.HTMLElement.prototype.scrollTo = () => {
  return;
};
window.scrollTo = () => {
  return;
};
