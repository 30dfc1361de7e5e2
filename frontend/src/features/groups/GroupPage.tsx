import { Badge, Group, SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { memo, useEffect } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { asProblem } from "@/api/problem";
import { About } from "@/features/groups/About";
import { Actions } from "@/features/groups/Actions";
import { StateBadge } from "@/features/groups/Cells";
import { Charts } from "@/features/groups/Charts";
import { Diagnosis } from "@/features/groups/Diagnosis";
import { Dialog, useDialog } from "@/features/groups/Dialogs";
import { Members } from "@/features/groups/Members";
import { Numbers } from "@/features/groups/Numbers";
import { Places } from "@/features/groups/Places";
import { detailOptions, type Detail, type GroupName, type OfGroup } from "@/features/groups/queries";
import { isUndoable } from "@/features/groups/reset";
import { useTimelines } from "@/features/groups/timelines";
import { UndoNotice } from "@/features/groups/UndoNotice";
import { groupKey, lagPath, measured, useLive, useLiveEntry } from "@/live/useLive";
import { AlertsOf, alertsOfOptions } from "@/shared/AlertsOf";
import { consumerProgram, shellWord } from "@/shared/clientLines";
import { RecentEvents } from "@/shared/RecentEvents";
import { Teach, useClientAddress } from "@/shared/Teach";
import { WithheldNotice } from "@/shared/WithheldNotice";
import { SubjectLink } from "@/ui/links/links";
import { usePathParams } from "@/ui/links/urlState";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { Loading } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { Part } from "@/ui/page/Part";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

/** One consumer group: what is wrong and what helps, how its lag develops, who reads, and where it stands. */
export default function GroupPage() {
  const { t } = useTranslation("groups");
  const { subject, group } = usePathParams("subject", "group");
  const name: GroupName = { subject, group };
  const { data, error, refetch } = useQuery(detailOptions(name));
  const alerts = useQuery(alertsOfOptions(name));
  const [opened, onOpen] = useDialog();
  const isGone = error !== null && asProblem(error).status === 404;
  const detail = isGone ? undefined : data?.data;
  const etag = data?.etag ?? null;
  const hasPosition = detail?.progress.some(({ next_sequence: next }) => next !== null);
  const isComplete = detail?.progress.every(({ next_sequence: next, reason }) => next !== null || !reason) ?? false;
  const hasAlerts = alerts.isError || (alerts.data?.results.length ?? 0) > 0;
  const hasNotes = hasAlerts || Boolean(detail?.latest_reset && isUndoable(detail.latest_reset));
  return (
    <>
      <PageHeader
        title={group}
        crumbs={[{ label: t("title"), to: "/groups" }]}
        badges={<Badges name={name} detail={detail} refetch={refetch} />}
        description={
          <>
            {t("of_subject")} <SubjectLink subject={subject} />
          </>
        }
        actions={detail?.may_change && <Actions detail={detail} onOpen={onOpen} />}
      />
      <Stack gap="md">
        {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
        {(isGone || (detail && !hasPosition && isComplete)) && <FirstConsumer name={name} />}
        {!error && (!detail || alerts.isPending) && <Loading />}
        {detail && !alerts.isPending && (
          <>
            <WithheldNotice path={lagPath({ ...name })} subject={subject} />
            <Diagnosis name={name} detail={detail} onOpen={onOpen}>
              {hasNotes && (
                <>
                  {hasAlerts && <AlertsOf {...name} />}
                  <UndoNotice detail={detail} onOpen={onOpen} />
                </>
              )}
            </Diagnosis>
            {hasPosition && <Measurements name={name} detail={detail} etag={etag} />}
            <Part title={t("places.title")} note={t("places.note")}>
              <Places detail={detail} />
            </Part>
            <Part title={t("about.title")}>
              <About name={name} detail={detail} etag={etag} />
            </Part>
          </>
        )}
      </Stack>
      {opened && detail && (detail.may_change || opened.what === "start") && (
        <Dialog key={opened.what} name={name} detail={detail} etag={etag} open={opened} onClose={() => onOpen(null)} />
      )}
    </>
  );
}

/** The numbers, and how they develop beside who reads. */
function Measurements({ name, detail, etag }: OfGroup) {
  const timelines = useTimelines(name);
  return (
    <>
      <Numbers name={name} timelines={timelines} />
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
        <Charts name={name} timelines={timelines} />
        <Stack gap="md" miw={0}>
          <Consumers name={name} detail={detail} etag={etag} />
          <RecentEvents {...name} />
        </Stack>
      </SimpleGrid>
    </>
  );
}

const Consumers = memo(function Consumers(props: OfGroup) {
  const { t } = useTranslation("groups");
  const { name, detail } = props;
  const entry = useLiveEntry(lagPath({ ...name }), "groups", groupKey(name.subject, name.group));
  const { missing = [] } = measured(entry, "lag");
  const notes = [
    missing.length > 0 && t("members.missing", { groups: missing.join(", ") }),
    detail.members.length < detail.members_total && t("members.cut"),
  ].filter(Boolean);
  return (
    <Part title={t("members.title")} note={notes.join(" ") || undefined}>
      <Members {...props} missing={missing.length > 0} />
    </Part>
  );
});

/**
 * The state is that of the diagnosis below, so that the two never contradict each other; after a newer one of the live
 * feed both are read again.
 */
function Badges({
  name,
  detail,
  refetch,
}: {
  name: GroupName;
  detail: Detail | undefined;
  refetch: () => Promise<unknown>;
}) {
  const { t } = useTranslation("groups");
  const view = useLive(lagPath({ ...name }));
  const numbers = view.state.groups?.[groupKey(name.subject, name.group)];
  const [shown, newest] = [detail?.state, numbers?.state];
  useEffect(() => {
    if (shown !== undefined && newest !== undefined && shown !== newest) void refetch();
  }, [shown, newest, refetch]);
  const paused = detail?.paused_consumers.length ?? 0;
  return (
    <Group gap="xs">
      <StateBadge numbers={shown === undefined ? numbers : { ...numbers, state: shown }} />
      {paused > 0 && !detail?.is_paused && (
        <Badge color="grape" variant="light" title={detail?.paused_consumers.join(", ")}>
          {t("members.some_paused", { count: paused })}
        </Badge>
      )}
      <LiveBadge view={view} />
    </Group>
  );
}

function FirstConsumer({ name: { subject, group } }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  return (
    <Teach
      title={t("first.title")}
      commands={[`qmq consume ${shellWord(subject)} ${shellWord(group)}`]}
      code={consumerProgram(useClientAddress(), subject, group)}
    >
      {t("first.text")}
    </Teach>
  );
}
