import { memo, type Ref } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Column } from "@/ui/table/types";

interface Props<Row extends object> {
  row: Row;
  rowKey: string;
  /** Those that are shown, in their order. */
  columns: readonly Column<Row>[];
  /** Of each column, its part of a card. */
  parts: readonly string[];
  /** Which of all rows it is. */
  index: number;
  /** Reports the height of the row to the scrolled list. */
  measure?: Ref<HTMLTableRowElement>;
  /** It is shown beside the list. */
  isOpened: boolean;
  isSelected: boolean;
  /** Can't be chosen. */
  isDisabled: boolean;
  /** Without it there is nothing to choose. */
  onToggle?: (key: string, isSelected: boolean) => void;
}

function DrawnLine<Row extends object>(props: Props<Row>) {
  const { row, rowKey, columns, parts, index, measure, isOpened, isSelected, isDisabled, onToggle } = props;
  const { t } = useTranslation();
  // Plain elements: the component library's cost more than what is in them, and there are hundreds.
  return (
    <tr
      ref={measure}
      data-index={index}
      data-row={rowKey}
      data-opened={isOpened || undefined}
      aria-rowindex={index + 2}
    >
      {onToggle && (
        <td className="select">
          <input
            type="checkbox"
            className="row-check"
            aria-label={t("table.select_row", { name: rowKey })}
            disabled={isDisabled}
            checked={isSelected}
            onChange={(event) => onToggle(rowKey, event.currentTarget.checked)}
          />
        </td>
      )}
      {columns.map(({ id, header, align, cell }, at) => (
        <td key={id} className={`${parts[at]} ${align ?? ""}`} data-cell={id} data-label={header}>
          {cell(row)}
        </td>
      ))}
    </tr>
  );
}

/** A row of a list; drawn again only when it changed, however the list around it scrolls. */
export const Line = memo(DrawnLine) as typeof DrawnLine;
