import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  localStorage.clear();
  sessionStorage.clear();
});
// A deadline, not a wait: a busy machine is slow, and nothing is wrong with it.
configure({ asyncUtilTimeout: 50_000 });

// What jsdom lacks and the component library asks for.
Object.defineProperty(window, "matchMedia", {
  configurable: true,
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
Object.defineProperty(document, "fonts", {
  configurable: true,
  value: { addEventListener: vi.fn(), removeEventListener: vi.fn() },
});
