import { Badge, Group, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { asProblem } from "@/api/problem";
import { Actions } from "@/features/groups/Actions";
import { Charts } from "@/features/groups/Charts";
import { About } from "@/features/groups/About";
import { StateBadge, useWhy } from "@/features/groups/Cells";
import { Members } from "@/features/groups/Members";
import { Numbers } from "@/features/groups/Numbers";
import { Places } from "@/features/groups/Places";
import { detailOptions, type Detail, type GroupName } from "@/features/groups/queries";
import { groupKey, lagPath, measured, useLive, useLiveEntry } from "@/live/useLive";
import { AlertsOf, alertsOfOptions } from "@/shared/AlertsOf";
import { consumerProgram, shellWord } from "@/shared/clientLines";
import { SubjectLink } from "@/ui/links/links";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { Loading } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { Part } from "@/ui/page/Part";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Teach, useClientAddress } from "@/shared/Teach";
import { usePathParams } from "@/ui/links/urlState";
import { WithheldNotice } from "@/shared/WithheldNotice";

/** One consumer group: how it does, who reads, where it stands, and what can be done about it. */
export default function GroupPage() {
  const { t } = useTranslation("groups");
  const { subject, group } = usePathParams("subject", "group");
  const name: GroupName = { subject, group };
  const { data, error, refetch } = useQuery(detailOptions(name));
  const alerts = useQuery(alertsOfOptions(name));
  const isGone = error !== null && asProblem(error).status === 404;
  const detail = isGone ? undefined : data?.data;
  const hasPosition = detail?.progress.some(({ next_sequence: next }) => next !== null);
  const isComplete = detail?.progress.every(({ next_sequence: next, reason }) => next !== null || !reason) ?? false;
  return (
    <>
      <PageHeader
        title={group}
        crumbs={[{ label: t("title"), to: "/groups" }]}
        badges={<Badges name={name} detail={detail} />}
        description={<Description name={name} isThere={Boolean(hasPosition)} />}
        actions={detail?.may_change && <Actions name={name} detail={detail} etag={data?.etag ?? null} />}
      />
      <Stack gap="lg">
        {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
        {(isGone || (detail && !hasPosition && isComplete)) && <FirstConsumer name={name} />}
        {!error && (!detail || alerts.isPending) && <Loading />}
        {detail && !alerts.isPending && (
          <>
            <WithheldNotice path={lagPath({ ...name })} subject={subject} />
            <AlertsOf {...name} framed />
            {hasPosition && (
              <>
                <Numbers name={name} />
                <Charts name={name} />
                <Consumers name={name} detail={detail} etag={data?.etag ?? null} />
              </>
            )}
            <Part title={t("places.title")} note={t("places.note")}>
              <Places detail={detail} />
            </Part>
            <Part title={t("about.title")}>
              <About name={name} detail={detail} etag={data?.etag ?? null} />
            </Part>
          </>
        )}
      </Stack>
    </>
  );
}

function Consumers(props: { name: GroupName; detail: Detail; etag: string | null }) {
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
}

function Badges({ name, detail }: { name: GroupName; detail: Detail | undefined }) {
  const { t } = useTranslation("groups");
  const view = useLive(lagPath({ ...name }));
  const paused = detail?.paused_consumers.length ?? 0;
  return (
    <Group gap="xs">
      <StateBadge numbers={view.state.groups?.[groupKey(name.subject, name.group)]} />
      {paused > 0 && !detail?.is_paused && (
        <Badge color="grape" variant="light" title={detail?.paused_consumers.join(", ")}>
          {t("members.some_paused", { count: paused })}
        </Badge>
      )}
      <LiveBadge view={view} />
    </Group>
  );
}

function Description({ name, isThere }: { name: GroupName; isThere: boolean }) {
  const { t } = useTranslation("groups");
  const why = useWhy();
  const view = useLive(lagPath({ ...name }));
  const entry = view.state.groups?.[groupKey(name.subject, name.group)];
  return (
    <>
      {t("of_subject")} <SubjectLink subject={name.subject} />
      {isThere && entry && <> · {why(entry, view.state.subjects?.[name.subject])}</>}
    </>
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
