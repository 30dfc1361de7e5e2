import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { limits } from "./limits.ts";

/** Functions that use what browsers have. */
const IN_A_BROWSER = [
  "src/app/jump/recent.test.ts",
  "src/app/newBuild.test.ts",
  "src/features/dead_letters/work.test.ts",
  "src/features/subjects/bulk.test.ts",
  "src/live/feed.test.ts",
];
const BACKEND = process.env.QMQ_CONSOLE ?? "http://127.0.0.1:8000";

export default defineConfig(({ command }) => ({
  // Django serves what is built from here; in development Vite serves the root and asks a running console for the rest.
  base: command === "build" ? "/static/" : "/",
  plugins: [react(), limits()],
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  build: {
    manifest: true,
    // Nothing inline: the Content-Security-Policy refuses data: scripts and styles.
    assetsInlineLimit: 0,
    sourcemap: false,
    rolldownOptions: {
      output: {
        // Few files: each is a request, and six go at a time without HTTP/2. What only some pages draw stays with them.
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            {
              name: "lists",
              test: /src\/ui\/table\/|@tanstack\/(react-virtual|virtual-core)\//,
            },
            {
              name: "react",
              test: /node_modules\/(react|react-dom|scheduler|use-sync-external-store|@tanstack|i18next|react-i18next)\//,
            },
            { name: "icons", test: /node_modules\/@tabler\// },
            // What many pages draw with; a widget of few pages stays with these.
            { name: "mantine", test: /node_modules\/(@mantine|@floating-ui|clsx)\//, minShareCount: 6 },
            {
              name: "shared",
              test: /virtual:limits|src\/(api|format|live|ui\/(?!chart|dates\/Calendar|message|subjectTabs|table))/,
            },
          ],
        },
      },
    },
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
    // A page in jsdom on a busy machine takes seconds.
    testTimeout: 60_000,
    restoreMocks: true,
    unstubEnvs: true,
    unstubGlobals: true,
    // `make test` names a file for the results.
    reporters: process.env.QMQ_JUNIT ? ["default", ["junit", { outputFile: process.env.QMQ_JUNIT }]] : ["default"],
    css: false,
    // Files share one process and its modules: to load React and Mantine for each file costs more than the tests. So a test may not
    // replace a module (vi.mock): files before it have loaded the real one. What a test changes, src/test/setup.ts puts back.
    isolate: false,
    maxWorkers: 1,
    // What draws nothing needs no browser: an environment for each file costs more than its tests.
    projects: [
      {
        extends: true,
        test: { name: "functions", environment: "node", include: ["src/**/*.test.ts"], exclude: IN_A_BROWSER },
      },
      {
        extends: true,
        test: {
          name: "pages",
          environment: "jsdom",
          include: ["src/**/*.test.tsx", ...IN_A_BROWSER],
          setupFiles: ["src/test/setup.ts"],
        },
      },
    ],
  },
}));
