import { Alert, Breadcrumbs, Button, Loader, Paper, Stack, Text, Title } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { GroupTrace } from "@/features/trace/Group";
import { Lanes } from "@/features/trace/Lanes";
import { traceOptions, type Trace } from "@/features/trace/queries";
import { withRecent } from "@/features/trace/recent";
import { Steps } from "@/features/trace/Steps";
import { beginning } from "@/features/trace/steps";
import { splitSubject } from "@/format/subjects";
import { LinkTo } from "@/ui/links/LinkTo";
import { IconButton } from "@/ui/menu/buttons";
import { SubjectLink } from "@/ui/links/links";
import { QueryProblem } from "@/ui/page/loaded";
import { MessageView } from "@/ui/message/MessageView";
import { PageHeader } from "@/ui/page/PageHeader";
import { Teach } from "@/shared/Teach";
import { useUrlState, usePathParams } from "@/ui/links/urlState";
import { shellWord } from "@/shared/clientLines";

/** The scope of a trace that all broker groups answered, as the API names it. */
const EVERYWHERE = "all broker groups";

/** What became of one message: until it was stored, then in each consumer group, as far as the nodes still know. */
export default function TracePage() {
  const { t } = useTranslation("trace");
  const place = usePathParams("subject", "brokerGroup", "sequence");
  const [search] = useUrlState();
  const found = useInfiniteQuery(traceOptions(place));
  const [first] = found.data?.pages ?? [];
  return (
    <>
      <Breadcrumbs>
        <LinkTo
          size="sm"
          to="/trace"
          search={{ subject: splitSubject(place.subject).subject, recent: withRecent(search.recent, place) }}
        >
          {t("common:nav.trace")}
        </LinkTo>
      </Breadcrumbs>
      <PageHeader
        title={t("of", { place: `${place.brokerGroup} · ${place.sequence}` })}
        description={<OfSubject name={place.subject} />}
        actions={
          <IconButton
            icon={IconRefresh}
            label={t("common:table.refresh")}
            loading={found.isFetching && !found.isPending}
            onClick={() => void found.refetch()}
          />
        }
      />
      <QueryProblem of={found} />
      {found.isPending && <Loader aria-label={t("common:state.loading")} />}
      {first && (
        <Found
          trace={{ ...first, groups: found.data?.pages.flatMap(({ groups }) => groups) ?? [] }}
          nowMs={found.dataUpdatedAt}
          more={
            found.hasNextPage && (
              <Button
                variant="default"
                w="fit-content"
                loading={found.isFetchingNextPage}
                onClick={() => void found.fetchNextPage()}
              >
                {t("more_groups")}
              </Button>
            )
          }
        />
      )}
    </>
  );
}

function OfSubject({ name }: { name: string }) {
  const { t } = useTranslation("trace");
  const { kind, subject, group } = splitSubject(name);
  return (
    <>
      {t(`in.${kind}`, { group })} <SubjectLink subject={subject} />
    </>
  );
}

function Found({ trace, nowMs, more }: { trace: Trace; nowMs: number; more: ReactNode }) {
  const { t } = useTranslation("trace");
  const { message, original, groups, subject } = trace;
  const real = splitSubject(subject).subject;
  const storedAt = message?.stored_at ?? null;
  return (
    <Stack gap="md">
      {original && (
        <Alert color="orange" title={t("original.title", { attempt: original.attempt })}>
          <LinkTo size="sm" to="/trace" search={{ subject: original.subject, message_id: original.message_id }}>
            {t("original.find")}
          </LinkTo>
        </Alert>
      )}
      <Paper withBorder p="md">
        <Stack gap="sm">
          <Title order={2} size="h4">
            {t("section.time")}
          </Title>
          {message && <Steps steps={beginning(message)} label={t("section.beginning")} />}
          {trace.message_why && <Alert color="gray">{trace.message_why}</Alert>}
          <Lanes groups={groups} storedAt={storedAt} nowMs={nowMs} />
        </Stack>
      </Paper>
      <Title order={2} size="h4">
        {t("section.groups")}
      </Title>
      {groups.length === 0 ? (
        <Teach title={t("no_groups.title")} commands={[`qmq consume ${shellWord(real)} billing`]}>
          {t("no_groups.text")}
        </Teach>
      ) : (
        <div className="trace-groups">
          {groups.map((standing) => (
            <GroupTrace key={standing.group} standing={standing} subject={real} storedAt={storedAt} nowMs={nowMs} />
          ))}
        </div>
      )}
      {more}
      <Text size="sm" c="dimmed">
        {t(trace.scope === EVERYWHERE ? "scope.all" : "scope.reachable")}
      </Text>
      {message && (
        <>
          <Title order={2} size="h4">
            {t("section.message")}
          </Title>
          <Paper withBorder p="md">
            <MessageView message={message} />
          </Paper>
        </>
      )}
    </Stack>
  );
}
