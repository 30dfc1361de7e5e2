import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const StopDialog = whenDrawn(
  async () => (await import("@/features/brokers/stop/StopDialog")).StopDialog,
  ["rehearsals"],
);

/** "What if this node stops?" of the node that the address names by `?stop=`. */
export function StopInAddress() {
  const [{ stop }, change] = useUrlState();
  return stop ? <StopDialog nodeId={stop} onClose={() => change({ stop: undefined })} /> : null;
}
