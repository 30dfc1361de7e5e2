import { SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { NUMBERS } from "@/features/groups/GroupsTable";
import { deadLettersOptions, type GroupName } from "@/features/groups/queries";
import { groupKey, lagPath, useLiveEntry, useLiveNumber, type LiveNumbers } from "@/live/useLive";
import { DrainTime } from "@/ui/measure/DrainTime";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured, type Format } from "@/ui/measure/Measured";
import { Tile } from "@/ui/page/Tile";

/** How the numbers that only the page of a group has are written: all of the API that are not in NUMBERS. */
const OTHERS: Record<Exclude<keyof Schema<"LagNumbers">, (typeof NUMBERS)[number]["field"]>, Format> = {
  consumers_online: "count",
  retry_lag: "count",
  retried: "count",
};

/** The group's live numbers; what each means, on hover and focus. */
export function Numbers({ name }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  const deadLetters = useQuery(deadLettersOptions(name));
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, md: 4, xl: 6 }} spacing="sm">
      {NUMBERS.map(({ field, as }) => (
        <Tile key={field} label={t(`column.${field}`)} hint={t(`meaning.${field}`)}>
          <Live name={name} field={field} as={as} />
        </Tile>
      ))}
      <Tile label={t("column.send_rate")} hint={t("meaning.send_rate")}>
        <LiveSendRate name={name} />
      </Tile>
      <Tile label={t("column.drain_seconds")} hint={t("meaning.drain_seconds")}>
        <LiveDrain name={name} />
      </Tile>
      {(Object.keys(OTHERS) as (keyof typeof OTHERS)[]).map((field) => (
        <Tile key={field} label={t(`column.${field}`)} hint={t(`meaning.${field}`)}>
          <Live name={name} field={field} as={OTHERS[field]} />
        </Tile>
      ))}
      <Tile label={t("column.dead_letters")} hint={t("meaning.dead_letters")}>
        <LinkTo to="/dead-letters/$subject/$group" params={{ subject: name.subject, group: name.group }} inherit>
          <Measured {...(deadLetters.error ? { value: null, reason: deadLetters.error.message } : deadLetters.data)} />
          <span className="sr-only"> {t("dead_letters_link")}</span>
        </LinkTo>
      </Tile>
    </SimpleGrid>
  );
}

function Live({ name, field, as }: { name: GroupName; field: LiveNumbers["groups"]; as?: Format }) {
  const reading = useLiveNumber(lagPath({ ...name }), "groups", groupKey(name.subject, name.group), field);
  return <Measured {...reading} as={as} />;
}

function LiveSendRate({ name }: { name: GroupName }) {
  return <Measured {...useLiveNumber(lagPath({ ...name }), "subjects", name.subject, "send_rate")} as="rate" />;
}

function LiveDrain({ name }: { name: GroupName }) {
  return <DrainTime numbers={useLiveEntry(lagPath({ ...name }), "groups", groupKey(name.subject, name.group))} />;
}
