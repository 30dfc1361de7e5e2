import { Button, Group, NativeSelect, Radio, Stack, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { namesOptions, type Place } from "@/features/groups/queries";
import { sequenceProblem, type PlaceFields, type To } from "@/features/groups/reset";
import { sequence } from "@/format/numbers";
import { zoneName } from "@/format/times";
import { InstantInput } from "@/ui/dates/InstantInput";
import { PRESETS } from "@/ui/dates/presets";
import { useZone } from "@/ui/preferences";

const TIMES = ["hours_1", "hours_24", "today"] as const;

type Stored = Pick<Place, "broker_group"> & Partial<Pick<Place, "begin_sequence" | "end_sequence">>;

/** Where a group is to be set: the ends, a time with frequent ones, sequences, or the positions of another group. */
export function PlaceForm({
  subject,
  group,
  words,
  choices,
  fields,
  places,
  edit,
}: {
  subject: string;
  /** The group itself, whose positions are not offered. */
  group: string;
  /** The texts of the choices: `reset` or `start`. */
  words: "reset" | "start";
  choices: readonly To[];
  fields: PlaceFields;
  /** The broker groups of the subject. */
  places: readonly Stored[];
  edit: (some: Partial<PlaceFields>) => void;
}) {
  const { t } = useTranslation("groups");
  return (
    <>
      <Radio.Group label={t(`${words}.to`)} value={fields.to} onChange={(to) => edit({ to })}>
        <Stack gap={6} mt={6}>
          {choices.map((to) => (
            <Radio key={to} value={to} label={t(`${words}.${to}`)} description={t(`${words}.${to}_hint`)} />
          ))}
        </Stack>
      </Radio.Group>
      {fields.to === "time" && <Time fields={fields} edit={edit} />}
      {fields.to === "positions" &&
        places.map((place) => <Sequence key={place.broker_group} place={place} fields={fields} edit={edit} />)}
      {fields.to === "group" && <FromGroup subject={subject} group={group} fields={fields} edit={edit} />}
    </>
  );
}

type Of = Pick<Parameters<typeof PlaceForm>[0], "fields" | "edit">;

function Time({ fields, edit }: Of) {
  const { t } = useTranslation("groups");
  const zone = useZone();
  return (
    <Stack gap="xs">
      <InstantInput
        direction="past"
        label={t("reset.time_field", { zone: zoneName(zone) })}
        value={fields.time}
        onChange={(time) => edit({ time })}
      />
      <Group gap="xs">
        {TIMES.map((name) => (
          <Button
            key={name}
            size="compact-sm"
            variant="default"
            data-time={name}
            onClick={() => edit({ time: PRESETS.past[name]?.(Date.now(), zone) ?? null })}
          >
            {t(`common:dates.preset.${name}`)}
          </Button>
        ))}
      </Group>
    </Stack>
  );
}

function Sequence({ place, fields, edit }: Of & { place: Stored }) {
  const { t } = useTranslation("groups");
  const { broker_group: name, begin_sequence: begin = null, end_sequence: end = null } = place;
  const value = fields.positions[name] ?? "";
  const problem = sequenceProblem(value, { begin_sequence: begin, end_sequence: end });
  const stored =
    begin !== null && end !== null ? t("reset.stored", { begin: sequence(begin), end: sequence(end) }) : undefined;
  return (
    <Stack gap={4}>
      <TextInput
        label={t("reset.sequence_on", { broker_group: name })}
        inputMode="numeric"
        description={stored}
        error={problem === "digits" ? t("reset.digits") : undefined}
        value={value}
        onChange={({ currentTarget: { value } }) => edit({ positions: { ...fields.positions, [name]: value.trim() } })}
      />
      {problem === "outside" && <span data-warning="outside">{t("reset.outside")}</span>}
    </Stack>
  );
}

function FromGroup({ subject, group, fields, edit }: Of & { subject: string; group: string }) {
  const { t } = useTranslation("groups");
  const { data } = useQuery({ ...namesOptions(subject), enabled: subject !== "" });
  const others = (data ?? []).filter((name) => name !== group);
  return (
    <NativeSelect
      label={t("reset.from_group")}
      description={others.length === 0 ? t("reset.no_other_group") : undefined}
      value={fields.fromGroup}
      onChange={(event) => edit({ fromGroup: event.currentTarget.value })}
      data={[{ value: "", label: t("reset.choose") }, ...others]}
    />
  );
}
