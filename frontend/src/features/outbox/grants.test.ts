import { expect, test } from "vitest";
import { grantStatements, neededRights } from "@/features/outbox/grants";

const shop = {
  kind: "postgresql",
  table: "qmq_msg_queue",
  marker_table: "",
  database: "shop",
  user: "relay",
} as const;

test("each table has one statement with all its rights", () => {
  expect(grantStatements(shop, neededRights(shop))).toBe(
    'GRANT SELECT, UPDATE, DELETE ON "qmq_msg_queue" TO "relay";\n' +
      'GRANT SELECT, INSERT, UPDATE ON "qmq_outbox_lease" TO "relay";',
  );
});

test("the lease table lies in the schema of the outbox table", () => {
  const inSchema = { ...shop, table: "sales.outbox" };
  expect(neededRights(inSchema).map(({ table }) => table)).toEqual([
    ...Array<string>(3).fill('"sales"."outbox"'),
    ...Array<string>(3).fill('"sales"."qmq_outbox_lease"'),
  ]);
});

test("a table of markers needs its own rights, in its own schema", () => {
  const statements = grantStatements(shop, neededRights({ ...shop, marker_table: "sales.qmq_processed" })).split("\n");
  expect(statements.slice(2)).toEqual(['GRANT SELECT, DELETE ON "sales"."qmq_processed" TO "relay";']);
});

test("only missing rights are granted, and MySQL's tables have their database", () => {
  const missing = [{ table: "`qmq_msg_queue`", right: "DELETE" }];
  expect(grantStatements({ ...shop, kind: "mysql" }, missing)).toBe(
    "GRANT DELETE ON `shop`.`qmq_msg_queue` TO 'relay'@'%';",
  );
  const inSchema = [{ table: "`sales`.`outbox`", right: "DELETE" }];
  expect(grantStatements({ ...shop, kind: "mysql" }, inSchema)).toBe(
    "GRANT DELETE ON `sales`.`outbox` TO 'relay'@'%';",
  );
});

test("a name can't end its quotation", () => {
  const missing = [{ table: '"qmq_msg_queue"', right: "SELECT" }];
  expect(grantStatements({ ...shop, user: 'a"; DROP TABLE x; --' }, missing)).toBe(
    'GRANT SELECT ON "qmq_msg_queue" TO "a""; DROP TABLE x; --";',
  );
  const mysql = { ...shop, kind: "mysql", user: "o'neil\\", database: "my`shop" } as const;
  expect(grantStatements(mysql, [{ table: "`q`", right: "SELECT" }])).toBe(
    "GRANT SELECT ON `my``shop`.`q` TO 'o''neil\\\\'@'%';",
  );
});

test("SQLite has no rights to grant", () => {
  expect(grantStatements({ ...shop, kind: "sqlite" }, neededRights(shop))).toBe("");
});
