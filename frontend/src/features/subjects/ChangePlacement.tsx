import { Badge, List, MultiSelect, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Change } from "@/api/client";
import { change } from "@/api/requests";
import { PlacementPicture } from "@/features/subjects/PlacementPicture";
import { placesOf, routeIn, stepsOf, targetsOf } from "@/features/subjects/placement";
import { brokerGroupsOptions, subjectsKey, type Route } from "@/features/subjects/queries";
import { PlanDialog } from "@/ui/ChangeDialog";

/** Move a subject to other broker groups; the plan shows what each of them will do. */
export function ChangePlacement({
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
    <PlanDialog<Change>
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
      show={(plan) => <Plan plan={plan} />}
      isWorthIt={(plan) => plan.is_change}
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
    </PlanDialog>
  );
}

function Plan({ plan }: { plan: Change }) {
  const { t } = useTranslation("subjects");
  if (!plan.is_change) return <Badge color="gray">{t("common:change.nothing")}</Badge>;
  return (
    <>
      <PlacementPicture places={placesOf(routeIn(plan.after))} />
      <List size="sm">
        {stepsOf(plan.before, plan.after).map(({ brokerGroup, standing }) => (
          <List.Item key={brokerGroup}>
            <Text span size="sm" fw={600}>
              {brokerGroup}
            </Text>{" "}
            {t(`placement.${standing}`)}: {t(`placement.${standing}_means`)}
          </List.Item>
        ))}
      </List>
      {plan.notes.map((note) => (
        <Text key={note} size="sm">
          {note}
        </Text>
      ))}
    </>
  );
}
