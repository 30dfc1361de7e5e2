import { whenDrawn } from "@/ui/dialog/whenOpened";

/** `ThresholdReader`, loaded after the page. */
export const Thresholds = whenDrawn(async () => (await import("@/shared/ThresholdReader")).ThresholdReader, ["alerts"]);
