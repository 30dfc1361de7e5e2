import { Alert, Grid, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import { Password } from "@/features/account/Password";
import { Profile } from "@/features/account/Profile";
import { SecondFactor } from "@/features/account/SecondFactor";
import { Section } from "@/features/account/Section";
import { Sessions } from "@/features/account/Sessions";
import { LinkTo } from "@/ui/links/LinkTo";
import { PageHeader } from "@/ui/page/PageHeader";

/** The user's own account. A second factor that is demanded and missing comes first: without it nothing else works. */
export default function AccountPage() {
  const { t } = useTranslation("account");
  const me = useMe();
  return (
    <>
      <PageHeader title={t("common:nav.account")} description={`${me.username} · ${t(`common:role.${me.role}`)}`} />
      {me.lacks_second_factor && (
        <Alert color="orange" title={t("demanded.title")} mb="md">
          {t("demanded.text")}
        </Alert>
      )}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 6 }} order={me.lacks_second_factor ? 2 : 1}>
          <Profile />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6 }} order={me.lacks_second_factor ? 3 : 2}>
          <Password />
        </Grid.Col>
        <Grid.Col span={12} order={me.lacks_second_factor ? 1 : 3}>
          <SecondFactor />
        </Grid.Col>
        <Grid.Col span={12} order={4}>
          <Sessions />
        </Grid.Col>
        {!me.lacks_second_factor && (
          <Grid.Col span={12} order={5}>
            <Section title={t("common:nav.tokens")}>
              <Text size="sm" className="prose">
                {t("tokens.text")}{" "}
                <LinkTo to="/tokens" size="sm">
                  {t("tokens.link")}
                </LinkTo>
              </Text>
            </Section>
          </Grid.Col>
        )}
      </Grid>
    </>
  );
}
