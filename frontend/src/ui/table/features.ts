import { columnVisibilityFeature, tableFeatures } from "@tanstack/react-table";

/** What our tables use of the table library; the API filters and sorts. */
export const features = tableFeatures({ columnVisibilityFeature });
