import { Badge, Group, List } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { Item } from "@/features/overview/attention";
import { useReason } from "@/ui/reasons";
import { LinkTo } from "@/ui/links/LinkTo";

/** Issues of one screen; the verdict counts all. */
const SHOWN = 4;

/** What needs attention beside the alerts, worst first, each a way to it. */
export function Issues({ items }: { items: readonly Item[] }) {
  const { t } = useTranslation("overview");
  const reasonOf = useReason();
  if (items.length === 0) return null;
  return (
    <List listStyleType="none" spacing={4} mb={4} size="sm">
      {items.slice(0, SHOWN).map((item) => (
        <List.Item key={`${item.text} ${JSON.stringify(item.values)}`} data-issue={item.text}>
          <Group gap={8} wrap="nowrap" align="baseline" className="issue">
            <Badge color={item.level === "critical" ? "red" : "yellow"} variant="light">
              {t(`level.${item.level}`)}
            </Badge>
            <LinkTo {...item.target} c="inherit" size="sm">
              {t(`attention.${item.text}`, {
                ...item.values,
                ...("why" in item.values && { why: reasonOf(item.why, String(item.values.why)) }),
              })}
            </LinkTo>
          </Group>
        </List.Item>
      ))}
      {items.length > SHOWN && (
        <List.Item>
          <LinkTo to="/brokers" size="sm">
            {t("more_issues", { count: items.length - SHOWN })}
          </LinkTo>
        </List.Item>
      )}
    </List>
  );
}
