import { Group, Text, Timeline } from "@mantine/core";
import {
  IconAlertTriangle,
  IconCheck,
  IconClock,
  IconDatabase,
  IconDownload,
  IconPencil,
  IconRepeat,
} from "@tabler/icons-react";
import type { TFunction } from "i18next";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Step, StepKind } from "@/features/trace/steps";
import { splitSubject } from "@/format/subjects";
import { duration } from "@/format/times";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { useLanguage } from "@/ui/preferences";

const STYLES: Record<StepKind, { icon: typeof IconCheck; colour: string }> = {
  created: { icon: IconPencil, colour: "gray" },
  due: { icon: IconClock, colour: "grape" },
  stored: { icon: IconDatabase, colour: "blue" },
  pulled: { icon: IconDownload, colour: "blue" },
  acked: { icon: IconCheck, colour: "teal" },
  retry: { icon: IconRepeat, colour: "orange" },
  dead: { icon: IconAlertTriangle, colour: "red" },
};

/** Steps one below the other, with the time between; `last` says how it stands now. */
export function Steps({ steps, label, last }: { steps: readonly Step[]; label: string; last?: ReactNode }) {
  const { t } = useTranslation("trace");
  const language = useLanguage();
  return (
    <Timeline bulletSize={24} lineWidth={2} active={steps.length} aria-label={label} role="list" data-steps={label}>
      {steps.map((step, at) => {
        const { icon: Icon, colour } = STYLES[step.kind];
        return (
          <Timeline.Item
            key={`${step.kind} ${at}`}
            role="listitem"
            color={colour}
            bullet={<Icon size={14} aria-hidden />}
            title={t(`step.${step.kind}`, { attempt: step.link?.attempt })}
            data-step={step.kind}
          >
            <Group gap="xs">
              {step.at === null ? (
                <Text size="sm" c="dimmed">
                  {t("at_unknown")}
                </Text>
              ) : (
                <Text size="sm">
                  <Instant at={step.at} withMillis />
                </Text>
              )}
              {step.sinceSeconds !== null && (
                <Text size="sm" c="dimmed" data-since="">
                  {sinceText(step.sinceSeconds, language, t)}
                </Text>
              )}
            </Group>
            {step.consumerId && (
              <Text size="sm" className="break">
                {t("by", { consumer: step.consumerId })}
              </Text>
            )}
            {step.link && <Attempt link={step.link} isDead={step.kind === "dead"} />}
          </Timeline.Item>
        );
      })}
      {last}
    </Timeline>
  );
}

/** Clocks of several machines may disagree: then a step seems to lie before the one it follows. */
function sinceText(seconds: number, language: string, t: TFunction<"trace">): string {
  return seconds < 0
    ? t("since_before", { duration: duration(-seconds, language) })
    : t("since", { duration: duration(seconds, language) });
}

function Attempt({ link, isDead }: { link: NonNullable<Step["link"]>; isDead: boolean }) {
  const { t } = useTranslation("trace");
  const { subject, group } = splitSubject(link.subject);
  return (
    <Group gap="xs">
      {link.state !== null && <Text size="sm">{t(`state.${link.state}`)}</Text>}
      <LinkTo
        size="sm"
        to="/trace/$subject/$brokerGroup/$sequence"
        params={{ subject: link.subject, brokerGroup: link.broker_group, sequence: link.sequence }}
      >
        {t("attempt_trace")}
      </LinkTo>
      {isDead && group !== "" && (
        <LinkTo
          size="sm"
          to="/dead-letters/$subject/$group"
          params={{ subject, group }}
          search={{ letter: `${link.broker_group}:${link.sequence}` }}
        >
          {t("dead_letter")}
        </LinkTo>
      )}
    </Group>
  );
}
