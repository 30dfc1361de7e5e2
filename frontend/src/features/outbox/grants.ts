import type { Database, TestResult } from "@/features/outbox/queries";

type MissingRight = TestResult["missing_rights"][number];
type Tables = Pick<Database, "kind" | "table" | "marker_table">;
type Named = Tables & { database: string; user: string };

/** In the schema of the outbox table. */
const LEASE_TABLE = "qmq_outbox_lease";

/** A name as the database writes it in SQL. */
function quoted(kind: Database["kind"], name: string): string {
  const mark = kind === "mysql" ? "`" : '"';
  return mark + name.replaceAll(mark, mark + mark) + mark;
}

function account({ kind, user }: Named): string {
  if (kind !== "mysql") return quoted(kind, user);
  return `'${user.replaceAll("\\", "\\\\").replaceAll("'", "''")}'@'%'`;
}

/** The rights that a relay needs on its two tables, and the cleanup on that of the markers. */
export function neededRights({ kind, table, marker_table: markers }: Tables): MissingRight[] {
  const rightsOn = (name: string, ...rights: string[]) => {
    const quotedName = name
      .split(".")
      .map((part) => quoted(kind, part))
      .join(".");
    return rights.map((right) => ({ table: quotedName, right }));
  };
  const schema = table.slice(0, table.lastIndexOf(".") + 1);
  return [
    ...rightsOn(table, "SELECT", "UPDATE", "DELETE"),
    ...rightsOn(schema + LEASE_TABLE, "SELECT", "INSERT", "UPDATE"),
    ...(markers ? rightsOn(markers, "SELECT", "DELETE") : []),
  ];
}

/**
 * The statements that give a user these rights, a table each; "" for SQLite, whose rights are those of its file.
 * `rights` name tables as SQL does; MySQL also needs the database of a table.
 */
export function grantStatements(of: Named, rights: readonly MissingRight[]): string {
  if (of.kind === "sqlite") return "";
  const tables = [...new Set(rights.map(({ table }) => table))];
  return tables
    .map((table) => {
      const missing = rights.filter((one) => one.table === table).map(({ right }) => right);
      const where = of.kind === "mysql" && !table.includes("`.`") ? `${quoted(of.kind, of.database)}.${table}` : table;
      return `GRANT ${missing.join(", ")} ON ${where} TO ${account(of)};`;
    })
    .join("\n");
}
