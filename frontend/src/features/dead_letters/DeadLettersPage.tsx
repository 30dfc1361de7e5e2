import { Badge, Button, Group, Text, type ButtonProps } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { placeOptions, useMayOn } from "@/api/owner";
import { CausesOverTime } from "@/features/dead_letters/CausesOverTime";
import { useDeadLetterColumns } from "@/features/dead_letters/columns";
import type { Edit } from "@/features/dead_letters/edit";
import { DeadLetterDrawer } from "@/features/dead_letters/DeadLetterDrawer";
import {
  causesOptions,
  countOptions,
  deadLettersKey,
  loadDeadLetters,
  STATES,
  type LetterCount,
} from "@/features/dead_letters/queries";
import type { Action, Chosen } from "@/features/dead_letters/work";
import { count as countOf } from "@/format/numbers";
import { Measured } from "@/ui/measure/Measured";
import { Loading } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { TextButton } from "@/ui/menu/buttons";
import { SubjectLink, GroupLink } from "@/ui/links/links";
import { useLanguage } from "@/ui/preferences";
import { DataTable } from "@/ui/table/DataTable";
import { choice } from "@/ui/table/define";
import type { Filter, ListQuery } from "@/ui/table/types";
import { messageFilter } from "@/shared/filters/messageFilter";
import { Teach } from "@/shared/Teach";
import { placeKey } from "@/ui/message/place";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { useUrlState, usePathParams } from "@/ui/links/urlState";

const WorkDialog = whenDrawn(async () => (await import("@/features/dead_letters/WorkDialog")).WorkDialog);

const ALL: Chosen = { kind: "all" };
const DELETE = { variant: "default", color: "red" };

interface Wanted {
  action: Action;
  chosen: Chosen;
  edit?: Edit | undefined;
}

/** The dead letters of a consumer group: the cause of each, what was decided, and deciding about one, some or all. */
export default function DeadLettersPage() {
  const { t } = useTranslation("dead_letters");
  const { subject, group } = usePathParams("subject", "group");
  const [{ cause: wantedCause }, change] = useUrlState();
  const client = useQueryClient();
  const language = useLanguage();
  const mayOn = useMayOn(subject);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const { data: count } = useQuery(countOptions(subject, group));
  const { data: causes, isPending } = useQuery(causesOptions(subject, group));
  const open = useCallback((key: string) => change({ letter: key }, true), [change]);
  const columns = useDeadLetterColumns(open);
  const load = useCallback(
    (query: ListQuery, signal: AbortSignal) => loadDeadLetters(subject, group, query, signal),
    [subject, group],
  );
  // Shown until the owner is known, too: a field that comes later moves the list.
  const mayFilter = useMay()("read_messages", useQuery(placeOptions(subject)).data?.owner);
  const recorded = useMemo(() => (causes?.results ?? []).filter((row) => row.cause !== null), [causes]);
  const filters = useMemo<Filter[]>(() => {
    const counts = new Map(recorded.map(({ cause, messages }) => [cause ?? "", messages]));
    const names = [...new Set([...counts.keys(), ...(wantedCause ? [wantedCause] : [])])];
    return [
      choice("cause", t("filter.cause"), names, (name) => {
        const messages = counts.get(name);
        return messages === undefined ? name : t("cause.counted", { cause: name, shown: countOf(messages, language) });
      }),
      choice("state", t("filter.state"), STATES, (value) => t(`state.${value}`)),
      ...(mayFilter ? [messageFilter(t("common:filter.label"), subject)] : []),
    ];
  }, [t, language, recorded, wantedCause, mayFilter, subject]);
  const mayReplay = mayOn("send");
  const mayDelete = mayOn("change_groups");
  const some: Chosen = { kind: "some", keys: [...selected] };
  const button = (action: Action, chosen: Chosen, text: string, look: ButtonProps = {}) => (
    <Button {...look} onClick={() => setWanted({ action, chosen })}>
      {text}
    </Button>
  );
  const isAny = (count?.stored ?? 0) > 0;
  return (
    <>
      <PageHeader
        title={t("of", { group })}
        crumbs={[{ label: t("common:nav.dead_letters"), to: "/dead-letters" }]}
        badges={count && <Counts count={count} />}
        description={
          <>
            {t("given_up_by")} <GroupLink subject={subject} group={group} /> {t("of_subject")}{" "}
            <SubjectLink subject={subject} />
          </>
        }
        actions={
          isAny && (
            <>
              {mayReplay && button("replay", ALL, t("action.replay_all"), { variant: "default" })}
              {mayDelete && button("delete", ALL, t("action.delete_all"), DELETE)}
            </>
          )
        }
      />
      {causes && (
        <CausesOverTime
          causes={causes}
          name={(cause, text) => (
            <TextButton inherit onClick={() => change({ cause })}>
              {text}
            </TextButton>
          )}
        />
      )}
      {isPending && <Loading />}
      {/* Loads meanwhile, and is shown together with what stands above it. */}
      <div hidden={isPending}>
        <DataTable
          label={t("of", { group })}
          queryKey={[...deadLettersKey, "list", subject, group]}
          load={load}
          columns={columns}
          filters={filters}
          rowKey={placeKey}
          download={`/api/v1/dead-letters/${encodeURIComponent(subject)}/${encodeURIComponent(group)}/`}
          refetchOnFocus={false}
          selection={mayReplay || mayDelete ? { selected, onChange: setSelected } : undefined}
          actions={
            selected.size > 0 && (
              <Group gap="xs" role="toolbar" aria-label={t("action.label")}>
                <Text size="sm">{t("selected", { count: selected.size })}</Text>
                {mayReplay && button("replay", some, t("action.replay"))}
                {mayDelete && button("delete", some, t("common:action.delete"), DELETE)}
              </Group>
            )
          }
          empty={
            <Teach
              title={t("none.title")}
              code={`from qmq import App\n\n@app.consumer("${subject}", group="${group}", attempts_max=3)`}
            >
              {t("none.text")}
            </Teach>
          }
        />
      </div>
      <DeadLetterDrawer
        subject={subject}
        group={group}
        onDecide={(action, key, edit) => setWanted({ action, chosen: { kind: "some", keys: [key] }, edit })}
        mayReplay={mayReplay}
        mayDelete={mayDelete}
      />
      {wanted && (
        <WorkDialog
          subject={subject}
          group={group}
          wanted={wanted}
          onClose={(isDone) => {
            setWanted(null);
            if (!isDone) return;
            setSelected(new Set());
            void client.invalidateQueries({ queryKey: deadLettersKey });
          }}
        />
      )}
    </>
  );
}

function Counts({ count }: { count: LetterCount }) {
  const { t } = useTranslation("dead_letters");
  return (
    <>
      {(["open", "replayed", "deleted"] as const).map((state) => (
        <Badge key={state} variant="light" color={state === "open" && count.open > 0 ? "red" : "gray"} tt="none">
          {t(`state.${state}`)} <Measured value={count[state]} />
        </Badge>
      ))}
    </>
  );
}
