import { expect, test } from "vitest";
import {
  draftOf,
  isComplete,
  isTested,
  needsPassword,
  NEW_DATABASE,
  toChange,
  toDatabase,
} from "@/features/outbox/databaseDraft";
import { database } from "@/features/outbox/samples.testing";

test("an unchanged form changes nothing, and keeps the password", () => {
  const row = database({ rows_per_second_max: 50 });
  const change = toChange(draftOf(row));
  expect(change).toEqual({
    name: "shop",
    host: "db.example",
    port: 5432,
    database: "shop",
    user: "relay",
    tls: "off",
    table: "qmq_msg_queue",
    owner: null,
    is_enabled: true,
    rows_per_second_max: 50,
    age_hours_max: null,
    marker_table: "",
    marker_days: 7,
  });
  expect(change).not.toHaveProperty("password");
});

test.each([{ host: "other.example" }, { port: 6432 }, { tls: "verify" }] as const)(
  "a password can't be sent to another server: %o asks for it again",
  (change) => {
    const row = database();
    const draft = { ...draftOf(row), ...change };
    expect(needsPassword(draft, row)).toBe(true);
    expect(isComplete(draft, row)).toBe(false);
    expect(isComplete({ ...draft, password: "secret" }, row)).toBe(true);
    expect(isComplete({ ...draft, dropsPassword: true }, row)).toBe(true);
    expect(needsPassword(draft, database({ has_password: false }))).toBe(false);
  },
);

test("another database or user of the same server keeps the password", () => {
  const row = database();
  expect(needsPassword({ ...draftOf(row), database: "other", user: "other" }, row)).toBe(false);
});

test("the usual port is used where none is given", () => {
  const row = database();
  const draft = { ...draftOf(row), port: "" } as const;
  expect(needsPassword(draft, row)).toBe(false);
  expect(toChange(draft).port).toBe(5432);
});

test("markers are kept for 7 days by default", () => {
  const draft = { ...NEW_DATABASE, markerTable: " qmq_processed " };
  expect(toDatabase(draft)).toMatchObject({ marker_table: "qmq_processed", marker_days: 7 });
  expect(toDatabase({ ...draft, markerDays: 30 })).toMatchObject({ marker_days: 30 });
  expect(draftOf(database({ marker_table: "m", marker_days: 9 }))).toMatchObject({ markerTable: "m", markerDays: 9 });
});

test("of SQLite only the file is sent, whatever was typed before", () => {
  const draft = { ...NEW_DATABASE, name: " cart ", host: "x", user: "y", password: "z", tls: "verify" } as const;
  expect(isComplete({ ...draft, kind: "sqlite" }, null)).toBe(false);
  expect(toDatabase({ ...draft, kind: "sqlite", database: "cart.sqlite3" })).toEqual({
    kind: "sqlite",
    name: "cart",
    database: "cart.sqlite3",
    table: "qmq_msg_queue",
    owner: null,
    is_enabled: true,
    rows_per_second_max: null,
    age_hours_max: null,
    marker_table: "",
    marker_days: 7,
  });
});

test("a dropped password is null, not empty", () => {
  expect(toChange({ ...draftOf(database()), password: "typed before", dropsPassword: true }).password).toBeNull();
});

test("the form announces a test only for changes that are tested", () => {
  const row = database();
  const draft = draftOf(row);
  expect(isTested({ ...draft, name: "renamed", rowsPerSecondMax: 5, markerDays: 30 }, row)).toBe(false);
  expect(isTested({ ...draft, user: "other" }, row)).toBe(true);
  expect(isTested({ ...draft, port: 6432 }, row)).toBe(true);
  expect(isTested({ ...draft, markerTable: "qmq_processed" }, row)).toBe(true);
  expect(isTested({ ...draft, password: "new" }, row)).toBe(true);
  expect(isTested(draft, database({ is_enabled: false }))).toBe(true);
  expect(isTested(draft, null)).toBe(true);
  expect(isTested({ ...draft, isEnabled: false, user: "other" }, row)).toBe(false);
});
