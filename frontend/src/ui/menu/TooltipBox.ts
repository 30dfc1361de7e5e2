/** The library's tooltip, in a chunk that is loaded with the first hint. */
export { Tooltip } from "@mantine/core";
