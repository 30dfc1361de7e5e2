import { Badge, Group, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import GroupsTable from "@/features/groups/GroupsTable";
import { STATE_COLOURS } from "@/features/groups/Cells";
import { CreateGroupButton } from "@/features/groups/CreateGroupButton";
import { statesOptions } from "@/features/groups/queries";
import { ORDER } from "@/features/groups/summary";
import * as numbers from "@/format/numbers";
import { lagPath } from "@/live/useLive";
import { LiveBadgeOf } from "@/ui/measure/LiveBadge";
import { PageHeader } from "@/ui/page/PageHeader";
import { useLanguage } from "@/ui/preferences";
import { useUrlState } from "@/ui/links/urlState";

/** Every consumer group. */
export default function GroupsPage() {
  const { t } = useTranslation("groups");
  return (
    <>
      <PageHeader title={t("title")} badges={<LiveBadgeOf path={lagPath()} />} actions={<CreateGroupButton />} />
      <StateSummary />
      <GroupsTable />
    </>
  );
}

/** How many groups are in which state, what needs a look first; each shows only those. */
function StateSummary() {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const [search, change] = useUrlState();
  const { data: counts = {} } = useQuery(statesOptions());
  const found = ORDER.filter((state) => counts[state]);
  // It keeps its place before the first numbers are there.
  return (
    <Group gap="xs" mb="sm" mih={26} role="group" aria-label={t("summary")}>
      {found.map((state) => {
        const isChosen = search.state === state;
        return (
          <UnstyledButton
            key={state}
            aria-pressed={isChosen}
            data-summary={state}
            onClick={() => change({ state: isChosen ? undefined : state, cursor: undefined })}
          >
            <Badge
              size="lg"
              variant={isChosen ? "filled" : "light"}
              color={STATE_COLOURS[state]}

              className="clickable"
            >
              {numbers.count(counts[state] ?? 0, language)} {t(`state.${state}`)}
            </Badge>
          </UnstyledButton>
        );
      })}
    </Group>
  );
}
