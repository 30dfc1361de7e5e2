import "@/features/trace/trace.css";
import { Autocomplete, Button, Group, NativeSelect, SegmentedControl, Stack, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconRoute, IconSearch } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { placeOptions } from "@/api/owner";
import { suggestOptions } from "@/features/trace/queries";
import { withRecent } from "@/features/trace/recent";

const TYPING_MS = 250;

interface Props {
  subject: string;
  messageId: string;
  onFind: (wanted: { subject: string; messageId: string }) => void;
  recent: string | undefined;
}

/** By subject and id, or by subject, broker group and sequence. */
export function FindForm(props: Props) {
  const { t } = useTranslation("trace");
  const navigate = useNavigate();
  const [by, setBy] = useState<"id" | "place">("id");
  const [subject, setSubject] = useState(props.subject);
  const [messageId, setMessageId] = useState(props.messageId);
  const [brokerGroup, setBrokerGroup] = useState("");
  const [sequence, setSequence] = useState("");
  const [settled] = useDebouncedValue(subject, TYPING_MS);
  const { data: names = [] } = useQuery({ ...suggestOptions(settled), placeholderData: keepPreviousData });
  const { data: place } = useQuery({ ...placeOptions(settled), enabled: by === "place" && names.includes(settled) });
  const groups = place?.brokerGroups ?? [];
  const group = groups.includes(brokerGroup) ? brokerGroup : (groups[0] ?? "");
  const isSequence = /^\d+$/.test(sequence);
  const isReady = subject !== "" && (by === "id" ? messageId.trim() !== "" : isSequence && group !== "");
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
            label={t("find.subject")}
            data={names}
            // The API has filtered already.
            filter={({ options }) => options}
            value={subject}
            onChange={setSubject}
          />
          {by === "id" ? (
            <TextInput
              className="find-id"
              label={t("find.id")}
              value={messageId}
              onChange={(event) => setMessageId(event.currentTarget.value)}
            />
          ) : (
            <>
              <NativeSelect
                label={t("find.broker_group")}
                data={groups}
                disabled={groups.length === 0}
                value={group}
                onChange={(event) => setBrokerGroup(event.currentTarget.value)}
              />
              <TextInput
                label={t("find.sequence")}
                inputMode="numeric"
                error={sequence !== "" && !isSequence ? t("find.no_sequence") : undefined}
                value={sequence}
                onChange={(event) => setSequence(event.currentTarget.value.trim())}
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
