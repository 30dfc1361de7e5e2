import { FlexRender, type Row as TableRow } from "@tanstack/react-table";
import { memo, type Ref } from "react";
import { useTranslation } from "react-i18next";
import type { features } from "@/ui/table/features";
import type { Column } from "@/ui/table/types";

interface Props<Row extends object> {
  row: TableRow<typeof features, Row>;
  /** Those that are shown, in their order. */
  columns: readonly Column<Row>[];
  /** Which of all rows it is. */
  index: number;
  /** Tells the scrolled list how high the row is. */
  measure?: Ref<HTMLTableRowElement>;
  isSelected: boolean;
  /** Can't be chosen. */
  isDisabled: boolean;
  /** Without it there is nothing to choose. */
  onToggle?: (key: string, isSelected: boolean) => void;
}

function DrawnLine<Row extends object>(props: Props<Row>) {
  const { row, columns, index, measure, isSelected, isDisabled, onToggle } = props;
  const { t } = useTranslation();
  // Plain elements: the component library's cost more than what is in them, and there are hundreds.
  return (
    <tr ref={measure} data-index={index} data-row={row.id} aria-rowindex={index + 2}>
      {onToggle && (
        <td>
          <input
            type="checkbox"
            className="row-check"
            aria-label={t("table.select_row", { name: row.id })}
            disabled={isDisabled}
            checked={isSelected}
            onChange={(event) => onToggle(row.id, event.currentTarget.checked)}
          />
        </td>
      )}
      {row.getVisibleCells().map((cell, at) => (
        <td key={cell.id} className={columns[at]?.align === "right" ? "right" : undefined} data-cell={cell.column.id}>
          <FlexRender cell={cell} />
        </td>
      ))}
    </tr>
  );
}

/** A row of a list; drawn again only when it changed, however the list around it scrolls. */
export const Line = memo(DrawnLine) as typeof DrawnLine;
