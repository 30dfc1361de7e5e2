/** The library's dialog, in a chunk that is loaded with the first dialog. */
export { Modal } from "@mantine/core";
