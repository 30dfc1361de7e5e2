import { Loader } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { SideDrawer } from "@/ui/dialog/SideDrawer";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const NodeDetails = whenDrawn(async () => (await import("@/features/brokers/topology/NodeDetails")).NodeDetails);

/** The node that the address names by `?node=`. Its content is loaded when it opens. */
export function NodeDrawer() {
  const { t } = useTranslation("brokers");
  const [{ node }, change] = useUrlState();
  return (
    <SideDrawer opened={Boolean(node)} onClose={() => change({ node: undefined })} title={t("node_title", { node })}>
      {node && <NodeDetails nodeId={node} waiting={<Loader aria-label={node} />} />}
    </SideDrawer>
  );
}
