import { Alert, Badge, Button, Group, List, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { Attempts } from "@/features/dead_letters/Attempts";
import { Decided } from "@/features/dead_letters/columns";
import { causesOf } from "@/features/dead_letters/compare";
import { editOf, type Edit } from "@/features/dead_letters/edit";
import { storyOptions, type Story } from "@/features/dead_letters/queries";
import type { Action } from "@/features/dead_letters/work";
import { Instant } from "@/ui/measure/Instant";
import { SubjectLink } from "@/ui/links/links";
import { LinkTo } from "@/ui/links/LinkTo";
import { AddressDrawer } from "@/ui/dialog/SideDrawer";
import { loaded } from "@/ui/page/loaded";
import { MessageView } from "@/ui/message/MessageView";
import { placeOf } from "@/ui/message/place";

interface Props {
  subject: string;
  group: string;
  mayReplay: boolean;
  mayDelete: boolean;
  onDecide: (action: Action, key: string, edit?: Edit) => void;
}

/** The dead letter that the address names by its key (`main:17`), beside the list. */
export function DeadLetterDrawer(props: Props) {
  const { t } = useTranslation("dead_letters");
  return (
    <AddressDrawer name="letter" size={960} title={t("one")}>
      {(key) => <One {...props} at={key} />}
    </AddressDrawer>
  );
}

function One({ subject, group, at, mayReplay, mayDelete, onDecide }: Props & { at: string }) {
  const { t } = useTranslation("dead_letters");
  const { brokerGroup, sequence } = placeOf(at);
  const [data, instead] = loaded(useQuery(storyOptions(subject, group, brokerGroup, sequence)));
  if (!data) return instead;
  const isDeleted = data.decision?.state === "deleted";
  const edit = editOf(data);
  return (
    <Stack gap="md">
      <Group gap="xs">
        <Decided letter={data} />
        <CauseLine letter={data} />
        <span className="grow" />
        {mayReplay && (
          <Button size="sm" onClick={() => onDecide("replay", at)}>
            {t("action.replay")}
          </Button>
        )}
        {mayReplay && edit && (
          <Button size="sm" variant="default" onClick={() => onDecide("replay", at, edit)}>
            {t("action.edit")}
          </Button>
        )}
        {mayDelete && !isDeleted && (
          <Button size="sm" variant="default" color="red" onClick={() => onDecide("delete", at)}>
            {t("common:action.delete")}
          </Button>
        )}
      </Group>
      <Title order={3} size="h5">
        {t("attempts.title")}
      </Title>
      {data.holes.length > 0 && (
        <Alert color="yellow" title={t("attempts.holes")} p="xs">
          <List size="sm">
            {data.holes.map((hole) => (
              <List.Item key={hole}>{hole}</List.Item>
            ))}
          </List>
        </Alert>
      )}
      <Attempts story={data} />
      <Title order={3} size="h5">
        {t("message")}
      </Title>
      <MessageView message={data} facts={factsOf(data, subject, t)} />
    </Stack>
  );
}

/** "Cause: AddressMissing (3 of 3 attempts)", each cause on its own. */
function CauseLine({ letter }: { letter: Story }) {
  const { t } = useTranslation("dead_letters");
  if (letter.withheld !== null) {
    return (
      <Badge color="red" variant="light" tt="none">
        {t("withheld")}
      </Badge>
    );
  }
  const causes = causesOf(letter).map(({ cause, failed, of }) => t("cause.of", { cause, failed, count: of }));
  // The attempts themselves may be gone: the dead letter has the cause of the last one.
  const last = letter.cause === null ? t("cause.unrecorded") : t("cause.last", { cause: letter.cause });
  const replay = letter.original_message_id === null ? [] : [t("why.replay")];
  return (
    <Text size="sm" data-cause={letter.cause ?? ""}>
      {[...(causes.length > 0 ? causes : [last]), ...replay].join(" · ")}
    </Text>
  );
}

function factsOf(data: Story, subject: string, t: TFunction<"dead_letters">) {
  const facts: [string, ReactNode][] = [];
  if (data.decision) {
    facts.push([
      t("column.state"),
      <span key="decision">
        {t(`state.${data.decision.state}`)} · {data.decision.by} · <Instant at={data.decision.at} />
      </span>,
    ]);
  }
  if (data.decision?.other_subject) {
    facts.push([t("replayed_to"), <SubjectLink key="to" subject={data.decision.other_subject} />]);
  }
  if (data.decision?.replay_id) facts.push([t("replay_id"), data.decision.replay_id]);
  if (data.original_message_id !== null) {
    facts.push([
      t("copy_of"),
      <LinkTo key="original" inherit to="/trace" search={{ subject, message_id: data.original_message_id }}>
        {data.original_message_id}
      </LinkTo>,
    ]);
  }
  return facts;
}
