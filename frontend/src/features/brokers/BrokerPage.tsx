import { Alert, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { withLive, type GroupView } from "@/features/brokers/topology/cluster";
import { Verdict } from "@/features/brokers/Cells";
import { CopiesBadge } from "@/features/brokers/members/CopiesBadge";
import { GroupActions } from "@/features/brokers/actions/GroupActions";
import { GroupHistory } from "@/features/brokers/GroupHistory";
import { Members } from "@/features/brokers/members/Members";
import { NodeBox } from "@/features/brokers/topology/NodeBox";
import { NodeDrawer } from "@/features/brokers/topology/NodeDrawer";
import { StopInAddress } from "@/features/brokers/stop/StopInAddress";
import { GroupNumbers } from "@/features/brokers/GroupNumbers";
import { PlacedSubjects } from "@/features/brokers/PlacedSubjects";
import { groupOptions, type BrokerGroupDetail } from "@/features/brokers/queries";
import { useLive } from "@/live/useLive";
import { RecentEvents } from "@/shared/RecentEvents";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { Part } from "@/ui/page/Part";
import { ResourcePage } from "@/ui/page/ResourcePage";
import { usePathParams } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const StartHelp = whenDrawn(async () => (await import("@/features/brokers/actions/AddGroup")).StartHelp);
const Decided = whenDrawn(async () => (await import("@/features/brokers/Decided")).Decided, ["jobs"]);
const WaitingList = whenDrawn(async () => (await import("@/shared/WaitingList")).WaitingList, ["jobs"]);

/** One broker or delay group: members and nodes, what it serves, its recent numbers, and what can be done with it. */
export default function BrokerPage() {
  const { t } = useTranslation("brokers");
  const { name } = usePathParams("name");
  const live = useLive("/ws/nodes/");
  const view = (group: BrokerGroupDetail) => withLive(group, live.state);
  return (
    <>
      <ResourcePage
        query={useQuery(groupOptions(name))}
        title={name}
        crumb={{ label: t("title"), to: "/brokers" }}
        header={(group, etag) => ({
          badges: (
            <>
              {group && <Verdict verdict={view(group).verdict} of="group" />}
              {group && <CopiesBadge group={group} isLong />}
              <LiveBadge view={live} />
            </>
          ),
          description: group && [t(`kind_long.${group.kind}`), group.description].filter(Boolean).join(" · "),
          actions: group && <GroupActions group={group} verdict={view(group).verdict} etag={etag} />,
        })}
      >
        {(group, etag) => <Whole group={group} etag={etag} view={view(group)} />}
      </ResourcePage>
      <NodeDrawer />
      <StopInAddress />
    </>
  );
}

function Whole({ group, etag, view }: { group: BrokerGroupDetail; etag: string | null; view: GroupView }) {
  const { t } = useTranslation("brokers");
  const { name } = group;
  return (
    <Stack gap="lg">
      {group.operator_state !== "normal" && <Decided group={group} verdict={view.verdict} />}
      {group.subjects_moving > 0 && (
        <Alert color="blue" title={t("moves.title", { count: group.subjects_moving })} role="status" data-moves="">
          {group.waiting.length > 0 ? <WaitingList reasons={group.waiting} /> : t("moves.next_step")}
        </Alert>
      )}
      <GroupNumbers group={group} view={view} />
      <Members group={group} etag={etag} />
      <Part title={t("column.nodes")} isRegion>
        {view.nodes.length === 0 ? (
          <Paper withBorder p="md">
            <Text mb="sm">{t("no_nodes")}</Text>
            <StartHelp kind={view.kind} name={view.name} />
          </Paper>
        ) : (
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            {view.nodes.map((node) => (
              <NodeBox key={node.nodeId} node={node} group={name} isWhole />
            ))}
          </SimpleGrid>
        )}
      </Part>
      <RecentEvents broker_group={name} />
      <GroupHistory name={name} kind={view.kind} />
      {view.kind === "broker" && <PlacedSubjects name={name} isMoving={group.subjects_moving > 0} />}
    </Stack>
  );
}
