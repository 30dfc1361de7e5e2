import { useTranslation } from "@/i18n/useTranslation";
import { worstLag } from "@/features/subjects/worstLag";
import { groupKey, lagPath, useLiveEntry, useLiveNumber, type LiveNumbers } from "@/live/useLive";
import { DrainTime } from "@/ui/measure/DrainTime";
import { Measured, type Format } from "@/ui/measure/Measured";

/** A live number of a subject, in a list of all of them. */
export function LiveNumber({ subject, field, as }: { subject: string; field: LiveNumbers["subjects"]; as: Format }) {
  return <Measured {...useLiveNumber(lagPath(), "subjects", subject, field)} as={as} />;
}

/** The lag of the subject's consumer group that is furthest behind, and which that is. */
export function LiveWorstLag({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const { group, ...reading } = worstLag(useLiveEntry(lagPath(), "subjects", subject), t("worst_lag.no_group"));
  return <Measured {...reading} as="compact" about={reading.value ? t("worst_lag.of", { group }) : undefined} />;
}

interface OfGroup {
  subject: string;
  group: string;
}

/** A live number of a consumer group, in the page of its subject. */
export function LiveGroupNumber({
  subject,
  group,
  field,
  as,
}: OfGroup & { field: LiveNumbers["groups"]; as?: Format }) {
  return <Measured {...useLiveNumber(lagPath({ subject }), "groups", groupKey(subject, group), field)} as={as} />;
}

/** In how long the lag is gone. */
export function LiveDrainTime({ subject, group }: OfGroup) {
  return <DrainTime numbers={useLiveEntry(lagPath({ subject }), "groups", groupKey(subject, group))} />;
}
