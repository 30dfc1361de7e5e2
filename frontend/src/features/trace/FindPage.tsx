import "@/features/trace/trace.css";
import {
  Autocomplete,
  Button,
  Group,
  List,
  NativeSelect,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { IconRoute, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { placeOptions } from "@/api/owner";
import { useSubjectNames } from "@/api/subjects";
import { Anywhere } from "@/features/trace/Anywhere";
import { FoundTable, ToTrace } from "@/features/trace/FoundTable";
import { findOptions } from "@/features/trace/queries";
import { recentOf, withRecent } from "@/features/trace/recent";
import { fieldsOf } from "@/ui/fields";
import { loaded } from "@/ui/page/loaded";
import { PageHeader } from "@/ui/page/PageHeader";
import { Part } from "@/ui/page/Part";
import { Teach } from "@/shared/Teach";
import { Unreachable } from "@/ui/measure/Unreachable";
import { useUrlState } from "@/ui/links/urlState";

const RECEIPT = `receipt = await producer.send("order.paid", b"{}")
print(receipt.message_id)`;

/** Find a message by its id, or go to it by its place; those viewed before are below. */
export default function FindPage() {
  const { t } = useTranslation("trace");
  const [search, change] = useUrlState();
  const subject = search.subject ?? "";
  const messageId = search.message_id ?? "";
  const recent = recentOf(search.recent);
  const around = search.around ?? "";
  return (
    <>
      <PageHeader title={t("common:nav.trace")} description={t("find.description")} />
      <Stack gap="lg">
        <FindForm
          key={`${subject} ${messageId}`}
          subject={subject}
          messageId={messageId}
          onFind={(next) => change({ subject: next.subject, message_id: next.messageId, around: undefined }, true)}
          recent={search.recent}
        />
        {messageId !== "" && subject !== "" && <Results subject={subject} messageId={messageId} />}
        {messageId !== "" && subject === "" && (
          <Anywhere
            key={`${messageId} ${around}`}
            messageId={messageId}
            around={around}
            onAround={(at) => change({ around: at }, true)}
          />
        )}
        {recent.length > 0 && (
          <Part title={t("recent")}>
            <List>
              {recent.map((place) => (
                <List.Item key={`${place.subject}/${place.brokerGroup}/${place.sequence}`}>
                  <ToTrace place={place}>{`${place.subject} · ${place.brokerGroup} · ${place.sequence}`}</ToTrace>
                </List.Item>
              ))}
            </List>
          </Part>
        )}
        {messageId === "" && recent.length === 0 && (
          <Teach title={t("teach.title")} code={RECEIPT}>
            {t("teach.text")}
          </Teach>
        )}
      </Stack>
    </>
  );
}

function Results({ subject, messageId }: { subject: string; messageId: string }) {
  const { t } = useTranslation("trace");
  const [data, instead] = loaded(useQuery(findOptions(subject, messageId)));
  if (!data) return instead;
  return (
    <Part title={t("find.found")}>
      <Unreachable of={data.unreachable} />
      {data.results.length === 0 ? (
        <Text role="status">{t("find.nothing", { id: messageId, subject })}</Text>
      ) : (
        <FoundTable messages={data.results.map((row) => ({ ...row, subject }))} />
      )}
    </Part>
  );
}

interface Props {
  subject: string;
  messageId: string;
  onFind: (wanted: { subject: string; messageId: string }) => void;
  recent: string | undefined;
}

/** By subject and id, or by subject, broker group and sequence. */
function FindForm(props: Props) {
  const { t } = useTranslation("trace");
  const navigate = useNavigate();
  const [by, setBy] = useState<"id" | "place">("id");
  const [values, setValues] = useState({
    subject: props.subject,
    messageId: props.messageId,
    brokerGroup: "",
    sequence: "",
  });
  const { subject, messageId, brokerGroup, sequence } = values;
  const fields = fieldsOf(values, (some) => setValues({ ...values, ...some }));
  const { names, debounced } = useSubjectNames(subject);
  const { data: place } = useQuery({
    ...placeOptions(debounced),
    enabled: by === "place" && names.includes(debounced),
  });
  const groups = place?.brokerGroups ?? [];
  const group = groups.includes(brokerGroup) ? brokerGroup : (groups[0] ?? "");
  const isSequence = /^\d+$/.test(sequence);
  const isReady = by === "id" ? messageId.trim() !== "" : subject !== "" && isSequence && group !== "";
  const go = () => {
    if (!isReady) return;
    if (by === "id") {
      props.onFind({ subject, messageId: messageId.trim() });
      return;
    }
    const to = { subject, brokerGroup: group, sequence };
    void navigate({
      to: "/trace/$subject/$brokerGroup/$sequence",
      params: to,
      search: { recent: withRecent(props.recent, to) },
    });
  };
  return (
    <form
      role="search"
      aria-label={t("find.label")}
      onSubmit={(event) => {
        event.preventDefault();
        go();
      }}
    >
      <Stack gap="sm">
        <SegmentedControl
          w="fit-content"
          aria-label={t("find.by")}
          value={by}
          onChange={(next) => setBy(next === "place" ? "place" : "id")}
          data={[
            { value: "id", label: t("find.by_id") },
            { value: "place", label: t("find.by_place") },
          ]}
        />
        <Group gap="sm" align="end">
          <Autocomplete
            className="find-subject"
            label={t(by === "id" ? "find.subject_optional" : "find.subject")}
            data={names}
            // The API has filtered already.
            filter={({ options }) => options}
            {...fields.chosen("subject")}
          />
          {by === "id" ? (
            <TextInput className="find-id" label={t("find.id")} {...fields.text("messageId")} />
          ) : (
            <>
              <NativeSelect
                label={t("find.broker_group")}
                data={groups}
                disabled={groups.length === 0}
                {...fields.text("brokerGroup")}
                value={group}
              />
              <TextInput
                label={t("find.sequence")}
                inputMode="numeric"
                error={sequence !== "" && !isSequence ? t("find.no_sequence") : undefined}
                value={sequence}
                onChange={(event) => setValues({ ...values, sequence: event.currentTarget.value.trim() })}
              />
            </>
          )}
          <Button
            type="submit"
            disabled={!isReady}
            leftSection={by === "id" ? <IconSearch size={16} aria-hidden /> : <IconRoute size={16} aria-hidden />}
          >
            {t(by === "id" ? "find.action" : "find.show")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
