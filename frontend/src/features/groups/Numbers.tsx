import { SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { NUMBERS } from "@/features/groups/GroupsTable";
import { DrainTime } from "@/features/groups/Cells";
import { deadLettersOptions, type GroupName } from "@/features/groups/queries";
import { groupKey, lagPath, measured, useLiveEntry } from "@/live/useLive";
import { LinkTo } from "@/ui/LinkTo";
import { Measured } from "@/ui/Measured";
import { Tile } from "@/ui/Tile";

/** The group's live numbers; what each means, on hover and focus. */
export function Numbers({ name }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  const path = lagPath({ ...name });
  const entry = useLiveEntry(path, "groups", groupKey(name.subject, name.group));
  const sent = useLiveEntry(path, "subjects", name.subject);
  const deadLetters = useQuery(deadLettersOptions(name));
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, md: 4, xl: 6 }} spacing="sm">
      {NUMBERS.map(({ field, as }) => (
        <Tile key={field} label={t(`column.${field}`)} hint={t(`meaning.${field}`)}>
          <Measured {...measured(entry, field)} as={as} />
        </Tile>
      ))}
      <Tile label={t("column.send_rate")} hint={t("meaning.send_rate")}>
        <Measured {...measured(sent, "send_rate")} as="rate" />
      </Tile>
      <Tile label={t("column.drain_seconds")} hint={t("meaning.drain_seconds")}>
        <DrainTime numbers={entry} />
      </Tile>
      {["consumers_online", "retry_lag", "retried"].map((field) => (
        <Tile key={field} label={t(`column.${field}`)} hint={t(`meaning.${field}`)}>
          <Measured {...measured(entry, field)} />
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
