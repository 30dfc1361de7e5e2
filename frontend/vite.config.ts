import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const BACKEND = process.env.QMQ_CONSOLE ?? "http://127.0.0.1:8000";

export default defineConfig(({ command }) => ({
  // Django serves what is built from here; in development Vite serves the root and asks a running console for the rest.
  base: command === "build" ? "/static/" : "/",
  plugins: [react()],
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  build: {
    manifest: true,
    // Nothing inline: the Content-Security-Policy refuses data: scripts and styles.
    assetsInlineLimit: 0,
    sourcemap: false,
  },
  server: {
    proxy: {
      "/api": { target: BACKEND },
      "/_allauth": { target: BACKEND },
      "/accounts": { target: BACKEND },
      "/ws": { target: BACKEND.replace(/^http/, "ws"), ws: true },
    },
  },
  test: {
    environment: "jsdom",
    setupFiles: ["src/test/setup.ts"],
    // A page in jsdom on a busy machine takes seconds.
    testTimeout: 60_000,
    restoreMocks: true,
    css: false,
  },
}));
