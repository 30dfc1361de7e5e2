/** The library's drawer, in a chunk that is loaded with the first drawer. */
export { Drawer } from "@mantine/core";
