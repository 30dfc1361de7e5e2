import { Container, Stack, Text, Title } from "@mantine/core";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { LinkTo } from "@/ui/LinkTo";
import { ProblemAlert } from "@/ui/ProblemAlert";

/** A page that broke: what happened, and a way on. */
export function Failed({ error, reset }: ErrorComponentProps) {
  return (
    <Container size="sm" py="xl">
      <ProblemAlert error={error} onRetry={reset} />
    </Container>
  );
}

export function NotFound() {
  const { t } = useTranslation();
  return (
    <Container size="sm" py="xl">
      <Stack>
        <Title order={1} size="h2">
          {t("state.no_page")}
        </Title>
        <Text>{t("state.no_page_hint")}</Text>
        <LinkTo to="/">{t("nav.overview")}</LinkTo>
      </Stack>
    </Container>
  );
}
