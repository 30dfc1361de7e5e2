import { Alert, Button, Group, Paper, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { memo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { copiesOf, servingMaster, type Copies } from "@/features/brokers/members/members";
import { MembersTable } from "@/features/brokers/members/MembersTable";
import type { BrokerGroupDetail } from "@/features/brokers/queries";
import { RoleHistory } from "@/features/brokers/members/RoleHistory";
import { TextButton } from "@/ui/menu/buttons";
import { Part } from "@/ui/page/Part";
import { useReason } from "@/ui/reasons";
import { whenDrawn } from "@/ui/dialog/whenOpened";

/** Each dialog is loaded when it opens. */
const DIALOGS = {
  switch_over: whenDrawn(async () => (await import("@/features/brokers/members/SwitchOverDialog")).SwitchOverDialog),
  copies: whenDrawn(async () => (await import("@/features/brokers/members/CopiesDialog")).CopiesDialog),
  remove_member: whenDrawn(
    async () => (await import("@/features/brokers/members/RemoveMemberDialog")).RemoveMemberDialog,
  ),
  replace_member: whenDrawn(
    async () => (await import("@/features/brokers/members/ReplaceMemberDialog")).ReplaceMemberDialog,
  ),
  promote: whenDrawn(async () => (await import("@/features/brokers/members/PromoteDialog")).PromoteDialog),
};

type Action = keyof typeof DIALOGS;

/** The members of a broker group, with what an operator can change, and the history of their roles. */
export const Members = memo(function Members({ group, etag }: { group: BrokerGroupDetail; etag: string | null }) {
  const { t } = useTranslation("brokers");
  const may = useMay();
  const [doing, setDoing] = useState<{ action: Action; group: BrokerGroupDetail; etag: string | null } | null>(null);
  const copies = copiesOf(group);
  if (copies === null) return null;
  const states = group.member_states;
  const isAlone = states.length === 1;
  const isReplicated = group.members.length > 1;
  const hasSuccessor = group.candidate_problem === "";
  const mayChange = may("change_cluster");
  const open = (action: Action) => setDoing({ action, group, etag });
  const Dialog = doing && DIALOGS[doing.action];
  return (
    <>
      <Part title={t("members.title")} isRegion>
        <Stack gap="sm">
          <Warnings group={group} copies={copies} />
          {isAlone && copies.wanted === 1 && (
            <Paper withBorder p="sm" data-only-copy="">
              <Text size="sm">
                {t("members.only_copy")}{" "}
                {mayChange && <TextButton onClick={() => open("copies")}>{t("members.add_copy")}</TextButton>}
              </Text>
            </Paper>
          )}
          <MembersTable group={group} />
          <Group justify="space-between" gap="xs">
            <Text size="sm" c="dimmed" data-settings="">
              {t("members.settings", { copies: group.copies, minimum: copies.minimum })}
              {group.in_sync_min !== copies.minimum && ` (${t("members.later", { minimum: group.in_sync_min })})`}
              {group.preferred.length > 0 && ` · ${t("members.preferred", { nodes: group.preferred.join(", ") })}`}
            </Text>
            {mayChange && (
              <Group gap="xs">
                {isReplicated && (
                  <Button
                    variant="default"
                    data-do="switch_over"
                    data-hint={hasSuccessor ? undefined : t("switch_over.no_successor")}
                    data-disabled={!hasSuccessor || undefined}
                    aria-disabled={!hasSuccessor}
                    onClick={() => hasSuccessor && open("switch_over")}
                  >
                    {t("switch_over.open")}
                  </Button>
                )}
                {group.members.length > 0 && !group.replacement && (
                  <Button variant="default" data-do="replace_member" onClick={() => open("replace_member")}>
                    {t("replace_member.open")}
                  </Button>
                )}
                {(isReplicated || group.replacement) && (
                  <Button variant="default" data-do="remove_member" onClick={() => open("remove_member")}>
                    {t("remove_member.open")}
                  </Button>
                )}
                <Button variant="default" data-do="copies" onClick={() => open("copies")}>
                  {t("copies.open")}
                </Button>
                {isReplicated && !hasSuccessor && !servingMaster(states) && (
                  <Button variant="outline" color="red" data-do="promote" onClick={() => open("promote")}>
                    {t("promote.open")}
                  </Button>
                )}
              </Group>
            )}
          </Group>
        </Stack>
      </Part>
      {group.role_history.length > 0 && <RoleHistory name={group.name} changes={group.role_history} />}
      {doing && Dialog && <Dialog group={doing.group} etag={doing.etag} onClose={() => setDoing(null)} />}
    </>
  );
});

/** All copies on one rack, which may fail as a whole. */
function RackWarning({ group }: { group: BrokerGroupDetail }) {
  const { t } = useTranslation("brokers");
  return (
    <Alert color="yellow" title={t("rack.title", { rack: group.shared_rack })} data-shared-rack={group.shared_rack}>
      <Text size="sm">{t("rack.remedy")}</Text>
    </Alert>
  );
}

/** What is wrong with the copies, and what to do. */
function Warnings({ group, copies }: { group: BrokerGroupDetail; copies: Copies }) {
  const { t } = useTranslation("brokers");
  const { inSync, minimum, isBelowMinimum } = copies;
  const missing = group.copies - group.members.length;
  const reasonOf = useReason();
  const blocked = group.members.length > 1 ? reasonOf(group.candidate_why, group.candidate_problem) : "";
  return (
    <>
      {isBelowMinimum && (
        <Alert
          color="red"
          icon={<IconAlertTriangle aria-hidden />}
          title={t("members.below.title")}
          role="alert"
          data-below-minimum=""
        >
          <Text size="sm">{t("members.below.what", { count: inSync, minimum })}</Text>
          <Text size="sm">{t("members.below.remedy")}</Text>
        </Alert>
      )}
      {group.replacement && (
        <Alert color="blue" title={t("replace_member.pending", group)} data-replacement={group.replacement}>
          <Text size="sm">{t("replace_member.pending_next")}</Text>
        </Alert>
      )}
      {missing > 0 && (
        <Alert color="yellow" title={t("members.missing.title", { count: missing })} data-missing-members={missing}>
          <Text size="sm">
            {t("members.missing.remedy")} <code>--broker-group {group.name}</code>
          </Text>
        </Alert>
      )}
      {group.shared_rack && <RackWarning group={group} />}
      {blocked && (
        <Alert color="yellow" title={t("members.blocked")} data-blocked="">
          <Text size="sm" className="break">
            {blocked}
          </Text>
        </Alert>
      )}
    </>
  );
}
