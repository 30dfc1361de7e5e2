import { Sideways } from "@/ui/table/Sideways";
import type { Column } from "@/ui/table/types";
import { Table, type TableProps } from "@/ui/table/Table";

/** A short table without filters, order or pages; the fixed column names the row. */
export function PlainTable<Row>({
  columns,
  rows,
  rowKey,
  minWidth = 420,
  label,
  ...look
}: TableProps & {
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  minWidth?: number;
  label: string;
}) {
  return (
    <Sideways label={label}>
      <Table miw={minWidth} {...look}>
        <Table.Thead>
          <Table.Tr>
            {columns.map(({ id, header, align }) => (
              <Table.Th key={id} ta={align}>
                {header}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={rowKey(row)} data-row={rowKey(row)}>
              {columns.map(({ id, cell, align, isFixed }) =>
                isFixed ? (
                  <Table.Th key={id} scope="row" fw={400} className="break">
                    {cell(row)}
                  </Table.Th>
                ) : (
                  <Table.Td key={id} ta={align} data-cell={id}>
                    {cell(row)}
                  </Table.Td>
                ),
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Sideways>
  );
}
