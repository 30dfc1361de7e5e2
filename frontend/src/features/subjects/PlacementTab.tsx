import { Alert, Badge, Button, Group, List, MultiSelect, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Change } from "@/api/client";
import { useMay } from "@/api/me";
import { asProblem } from "@/api/problem";
import { change } from "@/api/requests";
import { placesOf, routeIn, stepsOf, targetsOf, type Place } from "@/features/subjects/placement";
import { PlacementPicture } from "@/features/subjects/PlacementPicture";
import { brokerGroupsOptions, placementOptions, subjectsKey, type Route } from "@/features/subjects/queries";
import { bytes } from "@/format/numbers";
import { useLive } from "@/live/useLive";
import { worstReplicationLag } from "@/shared/replicationLag";
import { useLanguage } from "@/ui/preferences";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { shellWord } from "@/shared/clientLines";
import { BrokerLink } from "@/ui/links/links";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Teach } from "@/shared/Teach";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";
import { WaitingList } from "@/shared/WaitingList";

const STATE_COLOURS = { read_write: "teal", read_only: "orange", write_only: "orange", offline: "red" } as const;

/** Which broker groups serve a subject, which come and go, and what their moves wait for. */
export default function PlacementTab({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const may = useMay();
  const [isChanging, { open, close }] = useDisclosure();
  const { data, error, refetch } = useQuery(placementOptions(subject));
  if (error && asProblem(error).code === "route.unknown") {
    return (
      <Teach title={t("placement.none_title")} commands={[`qmq produce ${shellWord(subject)} -p hello=world`]}>
        {t("placement.none_text")}
      </Teach>
    );
  }
  if (!data) return error ? <ProblemAlert error={error} onRetry={() => void refetch()} /> : <Skeleton height={240} />;
  const { data: route, etag } = data;
  const places = placesOf(route);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="center">
        <Title order={2} size="h4">
          {t("placement.title")}
        </Title>
        {may("change_cluster") && (
          <Button variant="default" onClick={open} data-action="place">
            {t("placement.change")}
          </Button>
        )}
      </Group>
      <LivePicture places={places} />
      {Object.keys(route.phases).length > 0 && (
        <Alert color="blue" title={t("placement.moving")} role="status">
          {route.waiting.length === 0 ? t("placement.next_step") : <WaitingList reasons={route.waiting} />}
        </Alert>
      )}
      <Places places={places} />
      {isChanging && <ChangePlacement onClose={close} subject={subject} route={route} etag={etag} />}
    </Stack>
  );
}

/** The picture with the replication lag of each broker group that has slaves. */
function LivePicture({ places }: { places: readonly Place[] }) {
  const { t } = useTranslation("subjects");
  const language = useLanguage();
  const { state } = useLive("/ws/nodes/");
  const notes = Object.fromEntries(
    places.flatMap(({ brokerGroup }) => {
      const slave = worstReplicationLag(state.nodes ?? {}, brokerGroup);
      if (!slave) return [];
      const { value } = slave.lag;
      const lag = value == null ? t("placement.lag_unknown") : bytes(value, language);
      return [[brokerGroup, t("placement.replication_lag", { lag })]];
    }),
  );
  return <PlacementPicture places={places} notes={notes} />;
}

function Places({ places }: { places: readonly Place[] }) {
  const { t } = useTranslation("subjects");
  const { data: brokerGroups } = useQuery(brokerGroupsOptions());
  return (
    <PlainTable
      label={t("tab.placement")}
      minWidth={560}
      columns={defineColumns<Place>(
        (id) => t(`placement.${id}`),
        (column) => [
          column("broker_group", ({ brokerGroup }) => <BrokerLink name={brokerGroup} />),
          column("state", ({ brokerGroup }) => {
            const state = brokerGroups?.results.find(({ name }) => name === brokerGroup)?.state;
            if (!state) return "—";
            return (
              <Badge variant="light" color={STATE_COLOURS[state]} tt="none">
                {t(`placement.states.${state}`)}
              </Badge>
            );
          }),
          column("standing", ({ standing }) => t(`placement.${standing}`)),
          column("means", ({ standing }) => (
            <Text size="sm" c="dimmed">
              {t(`placement.${standing}_means`)}
            </Text>
          )),
        ],
      )}
      rows={places}
      rowKey={({ brokerGroup }) => brokerGroup}
    />
  );
}

/** Move a subject to other broker groups; the preview shows what each of them will do. */
function ChangePlacement({
  onClose,
  subject,
  route,
  etag,
}: {
  onClose: () => void;
  subject: string;
  route: Route;
  etag: string | null;
}) {
  const { t } = useTranslation("subjects");
  const { data: brokerGroups } = useQuery(brokerGroupsOptions());
  const [chosen, setChosen] = useState<string[] | null>(null);
  const now = targetsOf(route);
  const wanted = chosen ?? [...now];
  const isGoing = now.some((name) => !wanted.includes(name));
  return (
    <PreviewDialog<Change>
      onClose={onClose}
      title={t("placement.dialog", { name: subject })}
      actionLabel={t("placement.change")}
      doneMessage={t("placement.done", { name: subject })}
      // A broker group that goes refuses this subject from then on.
      confirmName={isGoing ? subject : undefined}
      isReady={wanted.length > 0}
      inputs={JSON.stringify([wanted, etag])}
      run={(attempt) =>
        change("put", "/api/v1/subjects/{subject}/placement/", attempt, {
          path: { subject },
          etag,
          body: { broker_groups: wanted },
        })
      }
      show={(preview) => <Preview preview={preview} />}
      isWorthIt={(preview) => preview.is_change}
      refreshes={[subjectsKey]}
    >
      <MultiSelect
        label={t("placement.targets")}
        description={t("placement.targets_hint")}
        data={(brokerGroups?.results ?? []).map(({ name, state, operator_state: operator }) => ({
          value: name,
          label:
            state === "read_write" && operator === "normal"
              ? name
              : `${name} (${t(`placement.states.${operator === "normal" ? state : operator}`)})`,
        }))}
        searchable
        value={wanted}
        onChange={setChosen}
      />
    </PreviewDialog>
  );
}

function Preview({ preview }: { preview: Change }) {
  const { t } = useTranslation("subjects");
  if (!preview.is_change) return <Badge color="gray">{t("common:change.nothing")}</Badge>;
  return (
    <>
      <PlacementPicture places={placesOf(routeIn(preview.after))} />
      <List size="sm">
        {stepsOf(preview.before, preview.after).map(({ brokerGroup, standing }) => (
          <List.Item key={brokerGroup}>
            <Text span size="sm" fw={600}>
              {brokerGroup}
            </Text>{" "}
            {t(`placement.${standing}`)}: {t(`placement.${standing}_means`)}
          </List.Item>
        ))}
      </List>
    </>
  );
}
