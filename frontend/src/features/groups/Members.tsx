import { Badge, Button, Code, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { consumersOf, countsOf, ratesOf, type Consumer, type Counts, SAMPLES_MAX } from "@/features/groups/members";
import { detailOptions, type Detail, type GroupName } from "@/features/groups/queries";
import { count } from "@/format/numbers";
import { duration } from "@/format/times";
import { Measured } from "@/ui/measure/Measured";
import { TextButton } from "@/ui/menu/buttons";
import { useLanguage } from "@/ui/preferences";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const PauseDialog = whenDrawn(async () => (await import("@/features/groups/PauseDialog")).PauseDialog);
/** Rows that are drawn at first; a group may have hundreds of consumers. */
const ROWS_AT_FIRST = 50;

/** Who reads: where from, how fast, what it holds; each can be paused by itself. */
export function Members({
  name,
  detail,
  etag,
  missing,
}: {
  name: GroupName;
  detail: Detail;
  etag: string | null;
  /** Whether some broker groups could not be reached. */
  missing: boolean;
}) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const { dataUpdatedAt } = useQuery(detailOptions(name));
  const consumers = useMemo(() => consumersOf(detail), [detail]);
  const rates = useRates(detail, dataUpdatedAt);
  const [isWhole, setWhole] = useState(false);
  const [chosen, setChosen] = useState<{ id: string; to: boolean; etag: string | null } | null>(null);
  if (consumers.length === 0) return <Text c="dimmed">{t(missing ? "members.none_known" : "members.none")}</Text>;
  const shown = isWhole ? consumers : consumers.slice(0, ROWS_AT_FIRST);
  const early = t("members.rate_early");
  const why = ({ isKnown, parts }: Consumer, field: string) =>
    isKnown ? parts.map((part) => part.reasons[field]).find(Boolean) : t("members.not_known");
  const columns = defineColumns<Consumer>(
    (id) => t(`members.${id}`),
    (column) => [
      column("consumer", { isFixed: true }, (one) => <Name one={one} reason={why(one, "address")} />),
      column("last_seen", (one) => (
        <Badge
          color={one.isOnline ? "teal" : "gray"}
          variant="light"
          data-online={one.isOnline}
          data-hint={
            one.lastSeen === null
              ? why(one, "last_seen_seconds")
              : t("members.seen", { time: duration(one.lastSeen, language) })
          }
          tabIndex={0}
        >
          {t(one.isOnline ? "members.online" : "members.away")}
        </Badge>
      )),
      column("in_flight", { header: t("column.in_flight"), align: "right" }, (one) => <InFlight one={one} />),
      column("unacked", { align: "right" }, (one) =>
        one.inFlight === 0 ? (
          <Text span c="dimmed" inherit>
            {t("members.nothing_held")}
          </Text>
        ) : (
          <Measured value={one.unackedSeconds} as="duration" />
        ),
      ),
      column("ack_rate", { header: t("column.ack_rate"), align: "right" }, (one) => (
        <Measured value={rates(one).acked} as="rate" reason={early} />
      )),
      detail.may_change &&
        column("actions", { align: "right" }, ({ id, isPaused }) => {
          const action = t(isPaused ? "action.resume" : "action.pause");
          if (detail.is_paused) return null;
          return (
            <TextButton aria-label={`${action} ${id}`} onClick={() => setChosen({ id, to: !isPaused, etag })}>
              {action}
            </TextButton>
          );
        }),
    ],
  );
  return (
    <>
      <PlainTable
        label={t("members.title")}
        minWidth={500}
        highlightOnHover
        columns={columns}
        rows={shown}
        rowKey={({ id }) => id}
      />
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

/** The consumer's ID, what is unusual about it, and its address; `reason`: why that is unknown. */
function Name({ one, reason }: { one: Consumer; reason: string | undefined }) {
  const { id, isPaused, duplicateAddresses, address } = one;
  const { t } = useTranslation("groups");
  return (
    <Group gap="xs">
      <Code className="break">{id}</Code>
      {isPaused && (
        <Badge color="grape" variant="light">
          {t("state.paused")}
        </Badge>
      )}
      {duplicateAddresses.length > 0 && (
        <Badge
          data-hint={t("members.duplicate_about", { addresses: duplicateAddresses.join(", ") })}
          color="orange"
          variant="light"
          tabIndex={0}
          data-duplicate={id}
        >
          {t("members.duplicate")}
        </Badge>
      )}
      <Text span size="xs" c="dimmed">
        {address ?? <Measured value={null} reason={reason} />}
      </Text>
    </Group>
  );
}

/** How many a consumer holds; by broker group on hover, where it reads from several. */
function InFlight({ one: { inFlight, isKnown, parts } }: { one: Consumer }) {
  const { t } = useTranslation("groups");
  const number = <Measured value={isKnown ? inFlight : null} reason={t("members.not_known")} />;
  if (parts.length < 2) return number;
  return <span data-hint={parts.map((part) => `${part.broker_group}: ${part.in_flight}`).join(", ")}>{number}</span>;
}

type Rates = ReturnType<typeof ratesOf>;

/** Each consumer's messages a second, from what it was given and acked the last few times that the nodes were asked. */
function useRates(detail: Detail, measuredAtMs: number): (consumer: Consumer) => Rates {
  const [samples, setSamples] = useState<readonly Counts[]>([]);
  if (samples.at(-1)?.atMs !== measuredAtMs) {
    setSamples([...samples, countsOf(detail.members, measuredAtMs)].slice(-SAMPLES_MAX));
  }
  return ({ parts }) => ratesOf(parts, samples[0], samples.at(-1));
}
