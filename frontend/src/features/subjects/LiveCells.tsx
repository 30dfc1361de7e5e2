import { useTranslation } from "react-i18next";
import { worstLags } from "@/features/subjects/worstLag";
import { groupKey, lagPath, measured, useLiveEntry, useLivePart } from "@/live/useLive";
import { Measured, type Format } from "@/ui/Measured";

/** A live number of a subject, in a list of all of them. */
export function LiveNumber({ subject, field, as }: { subject: string; field: string; as: Format }) {
  const entry = useLiveEntry(lagPath(), "subjects", subject);
  return <Measured {...measured(entry, field)} as={as} />;
}

/** The lag of the subject's consumer group that is furthest behind, and which that is. */
export function LiveWorstLag({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const worst = useLivePart(lagPath(), "groups", worstLags).get(subject);
  if (!worst) return <Measured value={null} reason={t("worst_lag.no_group")} />;
  const { group, ...reading } = worst;
  return <Measured {...reading} as="compact" about={reading.value ? t("worst_lag.of", { group }) : undefined} />;
}

interface OfGroup {
  subject: string;
  group: string;
}

/** A live number of a consumer group, in the page of its subject. */
export function LiveGroupNumber({ subject, group, field, as }: OfGroup & { field: string; as?: Format }) {
  const entry = useLiveEntry(lagPath({ subject }), "groups", groupKey(subject, group));
  return <Measured {...measured(entry, field)} as={as} />;
}

/** In how long the lag is gone; "never" at these rates is something else than not measured. */
export function LiveDrainTime({ subject, group }: OfGroup) {
  const { t } = useTranslation();
  const entry = useLiveEntry(lagPath({ subject }), "groups", groupKey(subject, group));
  return (
    <Measured
      {...measured(entry, "drain_seconds")}
      as="duration"
      unknown={entry?.is_draining === false ? t("unknown.not_at_these_rates") : undefined}
    />
  );
}
