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
  "src/live/rows.test.ts",
];
const BACKEND = process.env.QMQ_CONSOLE ?? "http://127.0.0.1:8000";

/** Of the combobox all but what a plain <select> uses as well. */
const COMBOBOX = "Combobox(?!/(ComboboxChevron|Combobox\\.module|get-parsed|use-pills))";
/** These components of the library, and modules whose path has `more` in it. */
function parts(components: string, more = "nothing else"): RegExp {
  return new RegExp(`@mantine/core/esm/components/(${components})/(?!RadioIcon)|${more}`);
}
/** What only the drawn chart imports: one module more that a page imports at once, and every page loads uPlot. */
const CHARTS = /uplot|src\/ui\/chart\/(Drawn|options|stack|keys|useKeys|overlays|thresholds)\./;
/** A message that is open; its tree comes when it has one. */
const MESSAGE = /src\/ui\/message\/(MessageView|BodyView|MaskNotes|message)\./;
/** A message in a list. */
const LINE = /src\/ui\/message\/(MessageLine|line(?!\.css)|decode|place)\./;
/** The field that filters messages; saved filters come when they are opened. */
const FILTERS = /src\/shared\/filters\/(FilterField|SavedFiltersButton|messageFilter|filters?)\./;
/** What pages about one thing say of it. */
const ABOUT =
  /src\/shared\/(RecentEvents|EventList|events(?!\.css)|describeEvent|useEventText|ruleNames|AlertsOf|WithheldNotice)\./;
/** A subject, whichever tab is open. */
const SUBJECT = /src\/features\/subjects\/(Favourite|useFavourites|worstLag|LiveCells|columns|FirstMessage|queries)\./;
/** Its overview, with what other features show there. */
const OVERVIEW =
  /src\/features\/(clients\/(Senders|words|Cells|queries)|messages\/(Newest|Says|queries|criteria)|subjects\/(OverviewTab|overview))\./;
const SHARED =
  /@tabler|@mantine\/(hooks|core)\/(?!esm\/components\/(Menu|Tooltip|ScrollArea\/(?!utils\/to-int)|NumberInput|Tabs|Timeline|Textarea|Radio|SegmentedControl|FloatingIndicator|PasswordInput))|openapi-fetch|nfiniteQuery|subjectParts|src\/shared\/((Teach|clientLines)\.|events\.css)|src\/ui\/message\/line\.css|src\/(api|format|live|ui\/(?!chart\/(Drawn|options|stack|keys|useKeys|overlays|thresholds)\.|dates\/C|message|.*Box))/;

/** Charts with a choice of time, as their pages draw them at first: also imported by what is loaded for other times. */
const RANGES =
  /src\/(shared\/(MarkedChart|Thresholds|ranges\/(RangePicker|range\.ts|useRange\.ts))|features\/(groups\/GroupCharts|brokers\/(HistoryCharts|masterLines)|subjects\/SendRates))/;

export default defineConfig(({ command }) => ({
  // Django serves what is built from here; in development Vite serves the root and asks a running console for the rest.
  base: command === "build" ? "/static/" : "/",
  plugins: [react(), limits()],
  // A file of texts is read as a whole.
  json: { namedExports: false },
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  build: {
    manifest: true,
    // Nothing inline: the Content-Security-Policy refuses data: scripts and styles.
    assetsInlineLimit: 0,
    sourcemap: false,
    rolldownOptions: {
      output: {
        // Few files: each is a request with 0.6 KB of headers, and six are read at a time without HTTP/2. A module that
        // many pages use is in one file with others of its kind; parts of the component library that pages open later
        // stay out of it.
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            {
              name: "react",
              tags: ["$initial"],
              test: /node_modules\/(react|react-dom|scheduler|use-sync-external-store|@tanstack|i18next)\//,
            },
            { name: "frame", tags: ["$initial"], test: /^(?!.*src\/app\/main)/ },
            { name: "floating", test: /@floating-ui|@mantine\/core\/esm\/components\/ScrollArea\/(?!utils\/to-int)/ },
            { name: "dialogs", test: parts("Modal|ModalBase|Drawer", "react-remove-scroll|src/ui/(Modal|Drawer)Box") },
            {
              name: "options",
              test: parts(`Popover|Select|Autocomplete|${COMBOBOX}`, "utils/Floating|src/ui/Popover"),
            },
            { name: "choices", test: parts("MultiSelect|TagsInput|Pill|PillsInput", "use-pills-reorder") },
            { name: "charts", test: CHARTS },
            { name: "ranges", test: RANGES },
            { name: "message", test: MESSAGE },
            { name: "line", test: LINE },
            { name: "filters", test: FILTERS },
            { name: "about", test: ABOUT },
            { name: "subject", test: SUBJECT },
            { name: "subject-overview", test: OVERVIEW },
            { name: "limits", test: /virtual:limits|src\/(api\/limits|ui\/fields)/ },
            { name: "ui", minShareCount: 2, test: SHARED },
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
    // Files share one process and its modules: to load React and Mantine for each file costs more than the tests. So a
    // test may not replace a module (vi.mock): files before it have loaded the real one. What a test changes,
    // src/test/setup.ts puts back.
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
