import { useTranslation } from "react-i18next";
import { GroupsTable } from "@/features/groups/GroupsTable";
import { StateSummary } from "@/features/groups/StateSummary";
import { lagPath, useLive } from "@/live/useLive";
import { LiveBadge } from "@/ui/LiveBadge";
import { PageHeader } from "@/ui/PageHeader";

/** Every consumer group. */
export default function GroupsPage() {
  const { t } = useTranslation("groups");
  return (
    <>
      <PageHeader title={t("title")} badges={<Live />} />
      <StateSummary />
      <GroupsTable />
    </>
  );
}

/** By itself: the rest of the page is not drawn again each second. */
function Live() {
  return <LiveBadge view={useLive(lagPath())} />;
}
