import { Anchor, Badge, Button, Code, Group, Table, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { consumersOf, countsOf, ratesOf, SAMPLES_MAX, type Consumer, type Counts } from "@/features/groups/members";
import { PauseDialog } from "@/features/groups/PauseDialog";
import { detailOptions, type Detail, type GroupName } from "@/features/groups/queries";
import { count } from "@/format/numbers";
import { Measured } from "@/ui/Measured";
import { useLanguage } from "@/ui/preferences";

/** Rows that are drawn at first; a group may have hundreds of consumers. */
const ROWS_AT_FIRST = 50;

/** Who reads: where from, how fast, what it holds; each can be paused by itself. */
export function Members({ name, detail, etag }: { name: GroupName; detail: Detail; etag: string | null }) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const { dataUpdatedAt } = useQuery(detailOptions(name));
  const consumers = useMemo(() => consumersOf(detail), [detail]);
  const rates = useRates(detail, dataUpdatedAt);
  const [isWhole, setWhole] = useState(false);
  const [chosen, setChosen] = useState<{ id: string; to: boolean; etag: string | null } | null>(null);
  if (consumers.length === 0) return <Text c="dimmed">{t("members.none")}</Text>;
  const shown = isWhole ? consumers : consumers.slice(0, ROWS_AT_FIRST);
  return (
    <>
      <Table.ScrollContainer minWidth={860} scrollAreaProps={{ "aria-label": t("members.title"), tabIndex: 0 }}>
        <Table highlightOnHover data-members={consumers.length}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("members.consumer")}</Table.Th>
              <Table.Th>{t("members.address")}</Table.Th>
              <Table.Th>{t("members.last_seen")}</Table.Th>
              <Table.Th ta="right">{t("column.in_flight")}</Table.Th>
              <Table.Th ta="right">{t("members.oldest")}</Table.Th>
              <Table.Th ta="right">{t("column.pull_rate")}</Table.Th>
              <Table.Th ta="right">{t("column.ack_rate")}</Table.Th>
              {detail.may_change && (
                <Table.Th>
                  <span className="sr-only">{t("members.actions")}</span>
                </Table.Th>
              )}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((one) => (
              <Row
                key={one.id}
                one={one}
                rates={rates(one)}
                isGroupPaused={detail.is_paused}
                onPause={detail.may_change ? (to) => setChosen({ id: one.id, to, etag }) : undefined}
              />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {consumers.length > shown.length && (
        <Button variant="subtle" size="xs" onClick={() => setWhole(true)}>
          {t("members.show_all", { all: count(consumers.length, language) })}
        </Button>
      )}
      {chosen && (
        <PauseDialog
          name={name}
          consumerId={chosen.id}
          to={chosen.to}
          etag={chosen.etag}
          onClose={() => setChosen(null)}
        />
      )}
    </>
  );
}

function Row({
  one,
  rates,
  isGroupPaused,
  onPause,
}: {
  one: Consumer;
  rates: { pulled: number | null; acked: number | null };
  isGroupPaused: boolean;
  onPause?: (to: boolean) => void;
}) {
  const { t } = useTranslation("groups");
  const early = t("members.rate_early");
  const reason = (field: string) => one.parts.map((part) => part.reasons[field]).find(Boolean);
  return (
    <Table.Tr data-consumer={one.id}>
      <Table.Th scope="row" fw={400}>
        <Group gap="xs" wrap="nowrap">
          <Code className="break">{one.id}</Code>
          {one.isPaused && (
            <Badge color="grape" variant="light">
              {t("state.paused")}
            </Badge>
          )}
          {one.duplicateAddresses.length > 0 && (
            <Tooltip
              multiline
              w={320}
              label={t("members.duplicate_about", { addresses: one.duplicateAddresses.join(", ") })}
              events={{ hover: true, focus: true, touch: true }}
            >
              <Badge color="orange" variant="light" tabIndex={0} data-duplicate={one.id}>
                {t("members.duplicate")}
              </Badge>
            </Tooltip>
          )}
        </Group>
      </Table.Th>
      <Table.Td>
        {one.address ?? <Measured value={null} reason={one.isKnown ? reason("address") : t("members.not_known")} />}
      </Table.Td>
      <Table.Td>
        <Group gap="xs" wrap="nowrap">
          <Badge color={one.isOnline ? "teal" : "gray"} variant="light" data-online={one.isOnline}>
            {t(one.isOnline ? "members.online" : "members.away")}
          </Badge>
          <Measured
            value={one.lastSeen}
            as="duration"
            reason={one.isKnown ? reason("last_seen_seconds") : t("members.not_known")}
          />
        </Group>
      </Table.Td>
      <Table.Td ta="right">
        <InFlight one={one} />
      </Table.Td>
      <Table.Td ta="right">
        <Measured
          value={one.oldestUnacked === null ? null : one.oldestUnacked / 1000}
          as="duration"
          reason={reason("oldest_unacked_ms")}
        />
      </Table.Td>
      <Table.Td ta="right">
        <Measured value={rates.pulled} as="rate" reason={early} />
      </Table.Td>
      <Table.Td ta="right">
        <Measured value={rates.acked} as="rate" reason={early} />
      </Table.Td>
      {onPause && (
        <Table.Td ta="right">
          {!isGroupPaused && (
            <Anchor
              component="button"
              type="button"
              size="sm"
              aria-label={`${t(one.isPaused ? "action.resume" : "action.pause")} ${one.id}`}
              onClick={() => onPause(!one.isPaused)}
            >
              {t(one.isPaused ? "action.resume" : "action.pause")}
            </Anchor>
          )}
        </Table.Td>
      )}
    </Table.Tr>
  );
}

/** How many a consumer holds; by broker group on hover, where it reads from several. */
function InFlight({ one: { inFlight, isKnown, parts } }: { one: Consumer }) {
  const { t } = useTranslation("groups");
  const number = <Measured value={isKnown ? inFlight : null} reason={t("members.not_known")} />;
  if (parts.length < 2) return number;
  return (
    <Tooltip label={parts.map((part) => `${part.broker_group}: ${part.in_flight}`).join(", ")}>
      <span>{number}</span>
    </Tooltip>
  );
}

type Rates = ReturnType<typeof ratesOf>;

/** Each consumer's messages a second, from what it was given and acked the last few times that the nodes were asked. */
function useRates(detail: Detail, askedAtMs: number): (consumer: Consumer) => Rates {
  const [samples, setSamples] = useState<readonly Counts[]>([]);
  if (samples.at(-1)?.atMs !== askedAtMs) {
    setSamples([...samples, countsOf(detail.members, askedAtMs)].slice(-SAMPLES_MAX));
  }
  return ({ parts }) => ratesOf(parts, samples[0], samples.at(-1));
}
