import type { TableQuery, TableName } from "@/features/analytics/queries";
import type { ChartColour } from "@/ui/chart/types";

/**
 * What the tabs show: which table, what of it is drawn, which columns the rows have. Texts stand in i18n under the same
 * names.
 */

export interface Line {
  colour: ChartColour;
  style?: "line" | "area";
  axis?: "left" | "right";
}

export interface Chart {
  /** By column. */
  lines: Readonly<Record<string, Line>>;
  /** An interval around the lines: the beginning of its columns, which end with `_low` and `_high`. */
  band?: string;
}

/** A chart with a line for each value of a column: causes, teams. */
export interface Split {
  title: string;
  by: string;
  column: string;
}

export interface Part {
  /** Key below `part.`. */
  id: string;
  table: TableName;
  /** Always asked with. */
  fixed?: TableQuery;
  /** What a row is of: its first columns. */
  names: readonly string[];
  /** The order in which the first row is the one to look at. */
  rank: string;
  /** By the key of their title below `chart.`. */
  charts?: Readonly<Record<string, Chart>>;
  split?: Split;
  /** Whether its rows forecast the drain of a lag, which is drawn with it. */
  isProjected?: boolean;
  /** The other columns of the rows, beside `at`. */
  columns: readonly string[];
  /** Columns that are shown only when chosen. */
  hidden?: readonly string[];
}

const CHOICES = ["subject", "group", "node_id", "metric"] as const;

/** What has to be chosen before the numbers of a part can be drawn as one line. */
export function choicesOf({ names }: Part): readonly (typeof CHOICES)[number][] {
  return CHOICES.filter((choice) => names.includes(choice));
}

const line = (colour: ChartColour): Line => ({ colour });
const area = (colour: ChartColour): Line => ({ colour, style: "area" });
const right = (colour: ChartColour): Line => ({ colour, axis: "right" });

const OF_GROUP = ["subject", "group"];
const PERCENTILES = { p50_ms: line("teal"), p90_ms: line("blue"), p99_ms: line("orange"), p999_ms: line("red") };

const LATENCY = {
  table: "latencies",
  names: OF_GROUP,
  rank: "-p99_ms",
  charts: { percentiles: { lines: PERCENTILES } },
  columns: ["messages", ...Object.keys(PERCENTILES), "max_ms"],
  hidden: ["mean_ms"],
} as const;

const FAILURES = {
  table: "failures",
  names: [...OF_GROUP, "cause"],
  rank: "-messages",
  split: { title: "causes", by: "cause", column: "messages" },
  columns: ["messages", "attempts_mean", "attempts_max"],
} as const;

/** The parts of each tab. */
export const VIEWS: Readonly<Record<string, readonly Part[]>> = {
  lag: [
    {
      id: "lag",
      table: "lag",
      names: OF_GROUP,
      rank: "-time_lag_seconds_max",
      charts: {
        lag: {
          lines: {
            lag_messages_max: area("blue"),
            backlog_messages_mean: line("orange"),
            in_flight_messages_mean: line("teal"),
          },
        },
        time_lag: { lines: { time_lag_seconds_max: area("orange"), time_lag_seconds_mean: line("gray") } },
      },
      columns: ["lag_messages_max", "lag_messages_mean", "lag_messages_last", "time_lag_seconds_max"],
      hidden: [
        "backlog_messages_max",
        "backlog_messages_mean",
        "in_flight_messages_max",
        "in_flight_messages_mean",
        "time_lag_seconds_mean",
      ],
    },
  ],
  rates: [
    {
      id: "sent",
      table: "subject_rates",
      names: ["subject"],
      rank: "-sent_messages",
      charts: {
        sent: {
          lines: {
            sent_messages_per_second_max: line("gray"),
            sent_messages_per_second_mean: area("blue"),
            sent_bytes_per_second_mean: right("teal"),
          },
        },
      },
      columns: [
        "sent_messages",
        "sent_messages_per_second_mean",
        "sent_messages_per_second_max",
        "sent_bytes",
        "sent_bytes_per_second_mean",
      ],
    },
    {
      id: "acked",
      table: "group_rates",
      names: OF_GROUP,
      rank: "-acked_messages",
      charts: {
        acked: {
          lines: { pulled_messages_per_second_mean: line("gray"), acked_messages_per_second_mean: area("blue") },
        },
      },
      columns: ["pulled_messages", "acked_messages", "acked_messages_per_second_mean", "acked_messages_per_second_max"],
    },
  ],
  latency: [
    { ...LATENCY, id: "end_to_end", fixed: { kind: "end_to_end" } },
    { ...LATENCY, id: "handling", fixed: { kind: "handling" } },
  ],
  skew: [
    {
      id: "skew",
      table: "group_skew",
      names: OF_GROUP,
      rank: "-max_mean_ratio",
      charts: { skew: { lines: { max_mean_ratio: line("orange"), consumers_count: right("gray") } } },
      columns: ["consumers_count", "acked_messages", "max_mean_ratio", "gini_ratio"],
    },
    {
      id: "shares",
      table: "consumer_shares",
      names: [...OF_GROUP, "consumer_id"],
      rank: "-share_ratio",
      split: { title: "shares", by: "consumer_id", column: "acked_messages" },
      columns: ["acked_messages", "share_ratio"],
    },
  ],
  forecast: [
    {
      id: "drain",
      table: "drain_forecasts",
      names: [...OF_GROUP, "outlook", "case_class"],
      // Not by the time, which is null where it is over a day.
      rank: "-lag_messages_last",
      isProjected: true,
      columns: ["lag_messages_last", "drain_seconds_low", "drain_seconds_mid", "drain_seconds_high"],
      hidden: ["interval_ratio", "method"],
    },
    {
      id: "disk",
      table: "disk_forecasts",
      names: ["broker_group", "node_id", "outlook"],
      rank: "full_seconds_mid",
      charts: {
        disk: { lines: { full_seconds_mid: line("blue") }, band: "full_seconds" },
        growth: { lines: { growth_bytes_per_second_mid: line("teal") }, band: "growth_bytes_per_second" },
      },
      columns: [
        "full_seconds_low",
        "full_seconds_mid",
        "full_seconds_high",
        "growth_bytes_per_second_low",
        "growth_bytes_per_second_mid",
        "growth_bytes_per_second_high",
        "disk_used_bytes_last",
        "disk_total_bytes_last",
      ],
      hidden: ["interval_ratio", "method"],
    },
  ],
  anomalies: [
    {
      id: "anomalies",
      table: "anomalies",
      fixed: { is_flagged: true },
      names: [...OF_GROUP, "metric"],
      rank: "-about_messages",
      charts: { anomaly: { lines: { value: line("red"), expected: line("gray") }, band: "expected" } },
      columns: ["about_messages", "value", "expected", "expected_low", "expected_high", "score"],
    },
  ],
  causes: [
    { ...FAILURES, id: "dead_letters", fixed: { kind: "dead_letter" } },
    { ...FAILURES, id: "retries", fixed: { kind: "retry" } },
  ],
  capacity: [
    {
      id: "capacity",
      table: "team_capacity",
      names: ["team"],
      rank: "-sent_bytes",
      split: { title: "capacity", by: "team", column: "sent_bytes_per_second_mean" },
      columns: [
        "subjects_count",
        "sent_messages",
        "sent_bytes",
        "sent_messages_per_second_mean",
        "sent_messages_per_second_max",
        "stored_messages_last",
        "stored_bytes_last",
      ],
    },
  ],
};
