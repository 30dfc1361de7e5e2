import "@/ui/table/plain.css";
import { Box, type BoxProps } from "@mantine/core";
import type { ComponentPropsWithRef } from "react";

type Part<Tag extends keyof React.JSX.IntrinsicElements> = BoxProps & Omit<ComponentPropsWithRef<Tag>, keyof BoxProps>;

export interface TableProps extends Part<"table"> {
  withTableBorder?: boolean;
  withRowBorders?: boolean;
  withColumnBorders?: boolean;
  highlightOnHover?: boolean;
  stickyHeader?: boolean;
  isDense?: boolean;
  /** Facts: each row's first cell is its name. */
  isVertical?: boolean;
}

/**
 * A table and its parts, which take the component library's properties of style. The library's own table brings its
 * scrolling area and its floating elements along: 18 KB of each page's first load.
 */
export function Table({
  withTableBorder,
  withRowBorders = true,
  withColumnBorders,
  highlightOnHover,
  stickyHeader,
  isDense,
  isVertical,
  className = "",
  ...others
}: TableProps) {
  const mod = {
    "with-border": withTableBorder,
    "with-rows": withRowBorders,
    "with-columns": withColumnBorders,
    hovers: highlightOnHover,
    "sticky-head": stickyHeader,
    dense: isDense,
    vertical: isVertical,
  };
  return <Box component="table" className={`table ${className}`} mod={mod} {...others} />;
}

Table.Thead = (props: Part<"thead">) => <Box component="thead" {...props} />;
Table.Tbody = (props: Part<"tbody">) => <Box component="tbody" {...props} />;
Table.Tr = (props: Part<"tr">) => <Box component="tr" {...props} />;
Table.Th = (props: Part<"th">) => <Box component="th" {...props} />;
Table.Td = (props: Part<"td">) => <Box component="td" {...props} />;
