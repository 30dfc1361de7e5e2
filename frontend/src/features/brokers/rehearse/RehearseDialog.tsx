import { NativeSelect, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { topologyOptions, OUTDATED } from "@/features/brokers/queries";
import { rehearsalAt, rehearsalOptions, type Planned } from "@/features/brokers/rehearse/queries";
import { SwitchOvers } from "@/features/brokers/rehearse/SwitchOvers";
import { Dialog } from "@/ui/dialog/Dialog";
import { useUrlState } from "@/ui/links/urlState";
import { QueryProblem } from "@/ui/page/loaded";

/**
 * Rehearse that a node or a rack stops: the groups that it leads are switched over one by one, as a plan shows first,
 * and back afterwards. What was not switched back is shown to the next operator.
 */
export function RehearseDialog() {
  const { t } = useTranslation("rehearsals");
  const client = useQueryClient();
  const [{ rehearse = "" }, setAddress] = useUrlState();
  const at = rehearsalAt(rehearse);
  const query = useQuery(rehearsalOptions(at));
  const [isWorking, setWorking] = useState(false);
  const close = () => {
    for (const queryKey of OUTDATED) void client.invalidateQueries({ queryKey });
    setAddress({ rehearse: undefined });
  };
  const isUndo = at.of === "undo";
  const groups: readonly Planned[] = (isUndo ? query.data?.undo : query.data?.plan) ?? [];
  return (
    <Dialog opened onClose={close} size="xl" title={t(isUndo ? "undo.title" : "title")}>
      <Stack gap="md">
        <Text size="sm">{t(isUndo ? "undo.about" : "about")}</Text>
        {!isUndo && (
          <Choice
            at={rehearse}
            racks={query.data?.racks ?? []}
            disabled={isWorking}
            onChange={(value) => setAddress({ rehearse: value })}
          />
        )}
        <QueryProblem of={query} />
        {at.of !== "choose" && !query.data && !query.error && <Skeleton height={160} />}
        {at.of !== "choose" && query.data && (
          <SwitchOvers
            key={rehearse}
            groups={groups}
            rehearsal={isUndo ? "" : `${at.of} ${at.name}`}
            onWorking={setWorking}
            onClose={close}
            onUndo={() => setAddress({ rehearse: "undo" })}
          />
        )}
      </Stack>
    </Dialog>
  );
}

/** The nodes that lead a group, and the racks. */
function Choice({
  at,
  racks,
  disabled,
  onChange,
}: {
  at: string;
  racks: readonly { rack: string; groups: number }[];
  disabled: boolean;
  onChange: (at: string) => void;
}) {
  const { t } = useTranslation("rehearsals");
  const { data } = useQuery(topologyOptions());
  const nodes = (data?.results ?? []).map(({ master }) => master).filter(Boolean);
  const known = new Set([...nodes.map((node) => `node:${node}`), ...racks.map(({ rack }) => `rack:${rack}`)]);
  return (
    <NativeSelect
      label={t("what")}
      disabled={disabled}
      value={at}
      onChange={(event) => onChange(event.currentTarget.value)}
      data-autofocus
    >
      <option value="choose">{t("choose")}</option>
      {/* A node that leads nothing any more, or not yet. */}
      {at !== "choose" && !known.has(at) && <option value={at}>{rehearsalAt(at).name}</option>}
      {racks.length > 0 && (
        <optgroup label={t("racks")}>
          {racks.map(({ rack, groups: count }) => (
            <option key={rack} value={`rack:${rack}`}>
              {t("rack_leads", { rack, count })}
            </option>
          ))}
        </optgroup>
      )}
      <optgroup label={t("nodes")}>
        {nodes.map((node) => (
          <option key={node} value={`node:${node}`}>
            {node}
          </option>
        ))}
      </optgroup>
    </NativeSelect>
  );
}
