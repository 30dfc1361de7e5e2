import { Alert, Badge, Group, List, Paper, Text } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Item } from "@/features/overview/attention";
import { LinkTo } from "@/ui/LinkTo";

/** One sentence when all is well, else what needs attention, worst first, each a way to it. */
export function Attention({ items }: { items: readonly Item[] }) {
  const { t } = useTranslation("overview");
  if (items.length === 0) {
    return (
      <Alert color="teal" icon={<IconCircleCheck aria-hidden />} title={t("well")} data-attention="0">
        {t("well_text")}
      </Alert>
    );
  }
  return (
    <Paper withBorder p="md" data-attention={items.length}>
      <Text component="h2" fw={600} size="md" mb="xs">
        {t("needs", { count: items.length })}
      </Text>
      <List listStyleType="none" spacing={6}>
        {items.map((item) => (
          <List.Item key={`${item.text} ${JSON.stringify(item.values)}`}>
            <Group gap="xs" wrap="nowrap" align="baseline">
              <Badge color={item.level === "critical" ? "red" : "yellow"} variant="light">
                {t(`level.${item.level}`)}
              </Badge>
              <LinkTo {...item.target} c="inherit">
                {t(`attention.${item.text}`, item.values)}
              </LinkTo>
            </Group>
          </List.Item>
        ))}
      </List>
    </Paper>
  );
}
