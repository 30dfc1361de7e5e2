import type { TableQuery, TableName } from "@/features/analytics/queries";
import type { ChartColour } from "@/ui/chart/TimeChart";

/** What the tabs show: which table, what of it is drawn, which columns the rows have. Texts stand in i18n under the same names. */

export interface Line {
  column: string;
  style?: "line" | "area" | "bars";
  axis?: "left" | "right";
  colour?: ChartColour;
}

export interface Chart {
  /** Key below `chart.`. */
  title: string;
  lines: readonly Line[];
  /** Columns of an interval around the lines. */
  band?: { low: string; high: string };
}

/** A chart with a line for each value of a column: causes, teams. */
export interface Split {
  title: string;
  by: string;
  column: string;
  style?: Line["style"];
}

/** What a row is of, and so what has to be chosen before its numbers can be drawn as one line. */
export type Choice = "subject" | "group" | "node_id" | "metric";

export interface Part {
  /** Key below `part.`. */
  id: string;
  table: TableName;
  /** Always asked with. */
  fixed?: TableQuery;
  choices: readonly Choice[];
  /** The order in which the first row is the one to look at. */
  rank: string;
  charts?: readonly Chart[];
  split?: Split;
  /** Columns of the rows, beside `at`; those after "|" are shown only when chosen. */
  columns: readonly string[];
  hidden?: readonly string[];
}

export interface View {
  id: string;
  parts: readonly Part[];
}

const OF_GROUP = ["subject", "group"] as const;

const LATENCY: Omit<Part, "id" | "fixed"> = {
  table: "latencies",
  choices: OF_GROUP,
  rank: "-p99_ms",
  charts: [
    {
      title: "percentiles",
      lines: [
        { column: "p50_ms", colour: "teal" },
        { column: "p90_ms", colour: "blue" },
        { column: "p99_ms", colour: "orange" },
        { column: "p999_ms", colour: "red" },
      ],
    },
  ],
  columns: ["subject", "group", "messages", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"],
  hidden: ["mean_ms"],
};

export const VIEWS: readonly View[] = [
  {
    id: "lag",
    parts: [
      {
        id: "lag",
        table: "lag",
        choices: OF_GROUP,
        rank: "-time_lag_seconds_max",
        charts: [
          {
            title: "lag",
            lines: [
              { column: "lag_messages_max", style: "area", colour: "blue" },
              { column: "backlog_messages_mean", colour: "orange" },
              { column: "in_flight_messages_mean", colour: "teal" },
            ],
          },
          {
            title: "time_lag",
            lines: [
              { column: "time_lag_seconds_max", style: "area", colour: "orange" },
              { column: "time_lag_seconds_mean", colour: "gray" },
            ],
          },
        ],
        columns: [
          "subject",
          "group",
          "lag_messages_max",
          "lag_messages_mean",
          "lag_messages_last",
          "time_lag_seconds_max",
        ],
        hidden: [
          "backlog_messages_max",
          "backlog_messages_mean",
          "in_flight_messages_max",
          "in_flight_messages_mean",
          "time_lag_seconds_mean",
        ],
      },
    ],
  },
  {
    id: "rates",
    parts: [
      {
        id: "sent",
        table: "subject_rates",
        choices: ["subject"],
        rank: "-sent_messages",
        charts: [
          {
            title: "sent",
            lines: [
              { column: "sent_messages_per_second_max", colour: "gray" },
              { column: "sent_messages_per_second_mean", style: "area", colour: "blue" },
              { column: "sent_bytes_per_second_mean", axis: "right", colour: "teal" },
            ],
          },
        ],
        columns: [
          "subject",
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
        choices: OF_GROUP,
        rank: "-acked_messages",
        charts: [
          {
            title: "acked",
            lines: [
              { column: "pulled_messages_per_second_mean", colour: "gray" },
              { column: "acked_messages_per_second_mean", style: "area", colour: "blue" },
            ],
          },
        ],
        columns: [
          "subject",
          "group",
          "pulled_messages",
          "acked_messages",
          "acked_messages_per_second_mean",
          "acked_messages_per_second_max",
        ],
      },
    ],
  },
  {
    id: "latency",
    parts: [
      { ...LATENCY, id: "end_to_end", fixed: { kind: "end_to_end" } },
      { ...LATENCY, id: "handling", fixed: { kind: "handling" } },
    ],
  },
  {
    id: "skew",
    parts: [
      {
        id: "skew",
        table: "group_skew",
        choices: OF_GROUP,
        rank: "-max_mean_ratio",
        charts: [
          {
            title: "skew",
            lines: [
              { column: "max_mean_ratio", colour: "orange" },
              { column: "consumers_count", axis: "right", colour: "gray" },
            ],
          },
        ],
        columns: ["subject", "group", "consumers_count", "acked_messages", "max_mean_ratio", "gini_ratio"],
      },
      {
        id: "shares",
        table: "consumer_shares",
        choices: OF_GROUP,
        rank: "-share_ratio",
        split: { title: "shares", by: "consumer_id", column: "acked_messages" },
        columns: ["subject", "group", "consumer_id", "acked_messages", "share_ratio"],
      },
    ],
  },
  {
    id: "forecast",
    parts: [
      {
        id: "drain",
        table: "drain_forecasts",
        choices: OF_GROUP,
        rank: "-drain_seconds_mid",
        charts: [
          {
            title: "drain",
            lines: [{ column: "drain_seconds_mid", colour: "blue" }],
            band: { low: "drain_seconds_low", high: "drain_seconds_high" },
          },
        ],
        columns: [
          "subject",
          "group",
          "outlook",
          "lag_messages_last",
          "drain_seconds_low",
          "drain_seconds_mid",
          "drain_seconds_high",
          "interval_ratio",
          "method",
        ],
      },
      {
        id: "disk",
        table: "disk_forecasts",
        choices: ["node_id"],
        rank: "full_seconds_mid",
        charts: [
          {
            title: "disk",
            lines: [{ column: "full_seconds_mid", colour: "blue" }],
            band: { low: "full_seconds_low", high: "full_seconds_high" },
          },
        ],
        columns: [
          "broker_group",
          "node_id",
          "outlook",
          "disk_used_bytes_last",
          "disk_total_bytes_last",
          "growth_bytes_per_second",
          "full_seconds_low",
          "full_seconds_mid",
          "full_seconds_high",
        ],
        hidden: ["interval_ratio", "method"],
      },
    ],
  },
  {
    id: "anomalies",
    parts: [
      {
        id: "anomalies",
        table: "anomalies",
        fixed: { is_flagged: true },
        choices: ["subject", "group", "metric"],
        rank: "-score",
        charts: [
          {
            title: "anomaly",
            lines: [
              { column: "value", colour: "red" },
              { column: "expected", colour: "gray" },
            ],
            band: { low: "expected_low", high: "expected_high" },
          },
        ],
        columns: ["subject", "group", "metric", "value", "expected", "expected_low", "expected_high", "score"],
        hidden: ["compared_days_count"],
      },
    ],
  },
  {
    id: "causes",
    parts: [
      {
        id: "dead_letters",
        table: "failures",
        fixed: { kind: "dead_letter" },
        choices: OF_GROUP,
        rank: "-messages",
        split: { title: "causes", by: "cause", column: "messages" },
        columns: ["subject", "group", "cause", "messages", "attempts_mean", "attempts_max"],
      },
      {
        id: "retries",
        table: "failures",
        fixed: { kind: "retry" },
        choices: OF_GROUP,
        rank: "-messages",
        split: { title: "causes", by: "cause", column: "messages" },
        columns: ["subject", "group", "cause", "messages", "attempts_mean", "attempts_max"],
      },
    ],
  },
  {
    id: "capacity",
    parts: [
      {
        id: "capacity",
        table: "team_capacity",
        choices: [],
        rank: "-sent_bytes",
        split: { title: "capacity", by: "team", column: "sent_bytes_per_second_mean", style: "line" },
        columns: [
          "team",
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
  },
];
