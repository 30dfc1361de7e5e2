import { Container, Text } from "@mantine/core";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { useTranslation } from "@/i18n/useTranslation";
import { Layout } from "@/app/Layout";
import { SignedIn } from "@/app/SignedIn";
import { LinkTo } from "@/ui/links/LinkTo";
import { PageHeader } from "@/ui/page/PageHeader";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

/** A page that broke: what happened, and a way on. */
export function Failed({ error, reset }: ErrorComponentProps) {
  return (
    <Container size="sm" py="xl">
      <ProblemAlert error={error} onRetry={reset} />
    </Container>
  );
}

/** An address without a page, inside the frame: the menu leads on. */
export function NotFound() {
  const { t } = useTranslation();
  return (
    <SignedIn>
      <Layout>
        <div data-page="not-found">
          <PageHeader title={t("state.no_page")} />
          <Text mb="md">{t("state.no_page_hint")}</Text>
          <LinkTo to="/">{t("nav.overview")}</LinkTo>
        </div>
      </Layout>
    </SignedIn>
  );
}
