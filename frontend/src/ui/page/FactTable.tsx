import type { ReactNode } from "react";
import { Table } from "@/ui/table/Table";

export type Fact = readonly [name: string, value: ReactNode];

/** What is known of a thing, a line each; `width` is that of the names. */
export function FactTable({ facts, width = 140 }: { facts: readonly Fact[]; width?: number }) {
  return (
    <Table isVertical>
      <Table.Tbody>
        {facts.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" w={width} className="break">
              {name}
            </Table.Th>
            <Table.Td className="break">{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
