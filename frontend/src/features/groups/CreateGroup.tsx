import { Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change, read, readWithTag } from "@/api/requests";
import { PlaceForm } from "@/features/groups/PlaceForm";
import { groupsKey, type Created } from "@/features/groups/queries";
import { NO_PLACE, startRequest, STARTS, totals, type PlaceFields } from "@/features/groups/reset";
import { count } from "@/format/numbers";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { useGoTo } from "@/ui/links/LinkTo";
import { useLanguage } from "@/ui/preferences";

const SUGGESTIONS = 20;
const AT_FIRST: PlaceFields = { ...NO_PLACE, to: "latest" };

/** Props of a text input. */
interface Field {
  value: string;
  onChange: (event: { currentTarget: { value: string } }) => void;
}

interface Props {
  opened: boolean;
  onClose: () => void;
  /** The subject, where that is given. */
  subject?: string | undefined;
}

/** Make a group before its first consumer pulls, and decide where it starts. */
export function CreateGroup({ opened, onClose, subject: given }: Props) {
  const { t } = useTranslation("groups");
  const goTo = useGoTo();
  const [names, setNames] = useState({ subject: given ?? "", name: "" });
  const [place, setPlace] = useState(AT_FIRST);
  const fields = fieldsOf(names, (some) => setNames({ ...names, ...some }), "NewGroupRequest");
  const { subject, name } = names;
  const close = () => {
    setNames({ subject: given ?? "", name: "" });
    setPlace(AT_FIRST);
    onClose();
  };
  const start = startRequest(place);
  return (
    <PreviewDialog
      opened={opened}
      onClose={close}
      title={t("create.title")}
      actionLabel={t("create.action")}
      doneMessage={t("create.done", { name })}
      isReady={subject !== "" && name !== "" && start !== null}
      inputs={JSON.stringify([names, place])}
      run={(attempt) =>
        change("post", "/api/v1/consumer-groups/", attempt, {
          body: { subject, name, ...start },
        })
      }
      show={(preview) => <Start preview={preview} />}
      refreshes={[groupsKey]}
      onDone={() => void goTo({ to: "/groups/$subject/$group", params: { subject, group: name } })}
    >
      {given === undefined && <SubjectField field={fields.text("subject")} />}
      <TextInput
        label={t("column.group")}
        {...fields.text("name")}
        required
        data-autofocus={given ? true : undefined}
      />
      <Place subject={subject} group={name} place={place} onChange={setPlace} />
    </PreviewDialog>
  );
}

function SubjectField({ field }: { field: Field }) {
  const { t } = useTranslation("groups");
  const id = useId();
  const { data } = useQuery({
    queryKey: ["subjects", "suggested", field.value],
    queryFn: read("/api/v1/subjects/", { query: { search: field.value, limit: SUGGESTIONS } }),
  });
  return (
    <>
      <TextInput label={t("column.subject")} {...field} list={id} required data-autofocus />
      <datalist id={id}>
        {data?.results.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

function Place(props: { subject: string; group: string; place: PlaceFields; onChange: (place: PlaceFields) => void }) {
  const { subject, group, place, onChange } = props;
  const { data } = useQuery({
    queryKey: ["subjects", "broker-groups", subject],
    queryFn: readWithTag("/api/v1/subjects/{subject}/", { path: { subject } }),
    enabled: subject !== "" && place.to === "positions",
    retry: false,
  });
  const places = (data?.data.broker_groups ?? []).map((broker_group) => ({ broker_group }));
  return (
    <PlaceForm
      words="start"
      choices={STARTS}
      subject={subject}
      group={group}
      fields={place}
      places={places}
      edit={(some) => onChange({ ...place, ...some })}
    />
  );
}

/** How many messages the group will receive first. */
function Start({ preview }: { preview: Created }) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  if (preview.broker_groups.length === 0) return <Text size="sm">{t("start.consumer_hint")}</Text>;
  const { pending } = totals(preview);
  return (
    <Text size="sm" data-says="pending">
      {t("create.pending", { count: pending ?? 0, number: count(pending ?? 0, language) })}
    </Text>
  );
}
