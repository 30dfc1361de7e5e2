import { Badge, Group, Progress, Stack, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { COLOURS, diskOf, type GroupVerdict, type NodeVerdict } from "@/features/brokers/topology/cluster";
import { bytes, percent } from "@/format/numbers";
import type { Entry } from "@/live/applyDelta";
import { measured } from "@/live/useLive";
import { Measured } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";

const WARN = 0.85;
const BAD = 0.95;

/** How full the disk is that a node's log lies on: by a bar, and in words. */
export function DiskBar({ numbers, label = "" }: { numbers: Entry | undefined; label?: string }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  const disk = diskOf(numbers);
  if (!disk) {
    return (
      <Stack gap={2} miw={130}>
        <Text size="xs">
          {label} <Measured value={null} reason={measured(numbers, "disk_free_bytes").reason} />
        </Text>
        <Progress value={0} size="sm" aria-hidden />
      </Stack>
    );
  }
  const share = disk.used / disk.total;
  const usage = t("disk_of", { used: bytes(disk.used, language), total: bytes(disk.total, language) });
  return (
    <Stack
      gap={2}
      miw={130}
      className={disk.isLast ? "incomplete" : undefined}
      data-hint={disk.isLast ? t("disk_last") : undefined}
    >
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text size="xs" className="nowrap">
          {label} {usage}
        </Text>
        <Text size="xs" fw={share >= WARN ? 700 : 400}>
          {percent(share, language)}
        </Text>
      </Group>
      <Progress
        value={share * 100}
        size="sm"
        color={share >= BAD ? "red" : share >= WARN ? "orange" : "blue"}
        aria-label={`${t("disk")}: ${usage}`}
      />
    </Stack>
  );
}

/** A state by its word, with a colour beside it. */
export function Verdict({ verdict, of }: { verdict: GroupVerdict | NodeVerdict; of: "group" | "node" }) {
  const { t } = useTranslation("brokers");
  return (
    <Badge
      color={COLOURS[verdict]}
      variant="light"
      data-verdict={verdict}
      leftSection={<span className="dot" aria-hidden />}
      title={t(`verdict_hint.${of}.${verdict}`)}
    >
      {t(`verdict.${verdict}`)}
    </Badge>
  );
}
