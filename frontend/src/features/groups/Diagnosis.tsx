import { Group, Paper, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconExclamationCircle, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { helpFor, sentencesOf, type Finding } from "@/features/groups/diagnosis";
import type { Opened } from "@/features/groups/Dialogs";
import type { Detail, GroupName } from "@/features/groups/queries";
import { textOf } from "@/format/values";
import { BrokerLink } from "@/ui/links/links";
import { LinkTo } from "@/ui/links/LinkTo";
import { TextButton } from "@/ui/menu/buttons";
import { useLanguage } from "@/ui/preferences";

const SEVERITIES = {
  critical: { color: "red", Icon: IconExclamationCircle },
  warning: { color: "orange", Icon: IconAlertTriangle },
  info: { color: "blue", Icon: IconInfoCircle },
  ok: { color: "teal", Icon: IconCheck },
} as const satisfies Record<Finding["severity"], object>;

/** What is wrong with the group in sentences, worst first, each with what helps; below them `children`. */
export function Diagnosis({
  name,
  detail,
  onOpen,
  children,
}: {
  name: GroupName;
  detail: Detail;
  onOpen: (what: Opened) => void;
  children?: ReactNode;
}) {
  const { t } = useTranslation("groups");
  if (detail.diagnosis.length === 0 && !children) return null;
  return (
    <Paper component="section" withBorder p="sm" aria-label={t("diagnosis.title")} data-diagnosis="">
      <Stack gap="xs">
        {detail.diagnosis.map((finding) => {
          const { color, Icon } = SEVERITIES[finding.severity];
          const key = `${finding.code} ${textOf(finding.values.consumer ?? finding.values.broker_group)}`;
          return (
            <Group key={key} gap="sm" wrap="nowrap" align="flex-start" data-finding={finding.code}>
              <Icon size={20} color={`var(--mantine-color-${color}-text)`} style={{ flex: "none" }} aria-hidden />
              <Text size="sm" component="p" m={0} className="break">
                <Sentences finding={finding} /> <Helps name={name} detail={detail} finding={finding} onOpen={onOpen} />
              </Text>
            </Group>
          );
        })}
        {children}
      </Stack>
    </Paper>
  );
}

function Sentences({ finding }: { finding: Finding }) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  return sentencesOf(finding, language)
    .map(({ key, values }) => t(`diagnosis.${key}`, values))
    .join(language.startsWith("zh") ? "" : " ");
}

function Helps({ name, detail, finding, onOpen }: Parameters<typeof Diagnosis>[0] & { finding: Finding }) {
  const { t } = useTranslation("groups");
  const help = helpFor(finding);
  if (help === null) return null;
  if ("place" in help) {
    switch (help.place) {
      case "broker_group":
        return <BrokerLink name={help.name}>{t("help.broker_group", { name: help.name })}</BrokerLink>;
      case "retries":
        return (
          <LinkTo
            to="/subjects/$subject"
            params={{ subject: `%RETRY%${name.subject}%${name.group}` }}
            search={{ tab: "messages" }}
          >
            {t("help.retries")}
          </LinkTo>
        );
      case "dead_letters":
        return (
          <LinkTo to="/dead-letters/$subject/$group" params={{ ...name }}>
            {t("help.dead_letters")}
          </LinkTo>
        );
    }
  }
  if (help.dialog === "start")
    return <TextButton onClick={() => onOpen({ what: "start" })}>{t("help.start")}</TextButton>;
  if (!detail.may_change) return null;
  if (help.dialog === "resume")
    return <TextButton onClick={() => onOpen({ what: "resume" })}>{t("help.resume")}</TextButton>;
  const { consumer } = help;
  return (
    <TextButton onClick={() => onOpen({ what: "pause", consumer })}>{t("help.pause_one", { consumer })}</TextButton>
  );
}
