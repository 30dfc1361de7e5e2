import { Breadcrumbs, Group, Stack, Text, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";
import type { Target } from "@/ui/links/addresses";
import { LinkTo } from "@/ui/links/LinkTo";
import { setPageTitle } from "@/ui/page/title";

export type Crumb = Target & { label: string };

/** A page's name, where it stands, and what can be done; sets the browser's title too. */
export function PageHeader({
  title,
  crumbs = [],
  badges,
  description,
  actions,
}: {
  title: string;
  crumbs?: readonly Crumb[];
  badges?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
}) {
  useEffect(() => {
    setPageTitle(title);
  }, [title]);
  return (
    <Stack gap={4} mb="md">
      {crumbs.length > 0 && (
        <Breadcrumbs>
          {crumbs.map(({ label, ...target }) => (
            <LinkTo key={target.to} {...target} size="sm">
              {label}
            </LinkTo>
          ))}
        </Breadcrumbs>
      )}
      <Group justify="space-between" align="center" gap="sm">
        <Group gap="sm" align="center">
          <Title order={1} size="h2" className="break">
            {title}
          </Title>
          {badges}
        </Group>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {description && (
        <Text c="dimmed" className="prose">
          {description}
        </Text>
      )}
    </Stack>
  );
}
