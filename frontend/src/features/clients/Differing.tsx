import { Alert, List } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Differing as Group } from "@/features/clients/queries";
import { GroupLink } from "@/ui/links/links";

const SHOWN = 5;

/** Groups whose members subscribe differently, and what that means. */
export function Differing({ groups }: { groups: readonly Group[] }) {
  const { t } = useTranslation("clients");
  return (
    <Alert color="yellow" icon={<IconAlertTriangle aria-hidden />} title={t("differs.title", { count: groups.length })}>
      <List size="sm" listStyleType="none" spacing={4}>
        {groups.slice(0, SHOWN).map(({ subject, group, differs }) => (
          <List.Item key={`${subject}/${group}`} data-differing={`${subject}/${group}`}>
            <GroupLink subject={subject} group={group}>
              <strong>
                {subject} · {group}
              </strong>
            </GroupLink>{" "}
            {differs.map((what) => t(`differs.${what}`)).join(" ")}
          </List.Item>
        ))}
        {groups.length > SHOWN && <List.Item>{t("differs.more", { count: groups.length - SHOWN })}</List.Item>}
      </List>
    </Alert>
  );
}
