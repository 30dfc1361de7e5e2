import "@/features/sign_in/sign_in.css";
import { Alert, Center, Loader, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter, type RouterHistory } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { AlreadyIn } from "@/features/sign_in/AlreadyIn";
import { CodeStep } from "@/features/sign_in/CodeStep";
import { safeNext } from "@/features/sign_in/next";
import { PasswordStep } from "@/features/sign_in/PasswordStep";
import { configOptions, giveCode, signIn, whereAmI, type Outcome } from "@/features/sign_in/queries";
import { SingleSignOn } from "@/features/sign_in/SingleSignOn";
import { Logo } from "@/ui/Logo";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { QueryProblem } from "@/ui/page/loaded";
import { useUrlState } from "@/ui/links/urlState";
import { LanguageSwitch, SchemeSwitch } from "@/ui/page/ViewSwitches";

/** Who are you? By password and code, or at the identity provider; then on to where one wanted to go. */
export default function SignInPage() {
  const { t } = useTranslation("sign_in");
  const [search] = useUrlState();
  const history = useRouter().history as RouterHistory;
  const queries = useQueryClient();
  const config = useQuery(configOptions());
  const [step, setStep] = useState<"password" | "code" | "already">("password");
  const next = safeNext(search.next, window.location.origin);
  useEffect(() => {
    document.title = `${t("title")} · PyQMQ`;
  }, [t]);

  const goOn = () => {
    queries.clear(); // What another user saw in this tab is not for this one.
    history.replace(next);
  };
  const move = (outcome: Outcome) => {
    if (outcome.kind === "signed_in") goOn();
    if (outcome.kind === "code" || outcome.kind === "already") setStep(outcome.kind);
    if (outcome.kind === "start_over") setStep("password");
  };
  const give = useMutation({
    mutationFn: ({ login, password }: { login: string; password: string }) => signIn(login, password),
    onSuccess: move,
  });
  const prove = useMutation({ mutationFn: giveCode, onSuccess: move });
  const isBack = search.back === "sso" && !search.error;
  const look = useMutation({ mutationFn: whereAmI, onSuccess: move });
  const { mutate: lookNow } = look;
  useEffect(() => {
    if (isBack) lookNow();
  }, [isBack, lookNow]);

  const last = step === "code" ? prove : give;
  const isLost = (step === "password" && prove.data?.kind === "start_over") || look.data?.kind === "start_over";
  return (
    <main className="welcome">
      <div className="welcome-switches">
        <LanguageSwitch />
        <SchemeSwitch />
      </div>
      <section className="welcome-about">
        <div className="brand">
          <Logo size={44} />
          PyQMQ
        </div>
        <p>{t("about")}</p>
        <p>{t("about_console")}</p>
      </section>
      <section className="welcome-form">
        <Stack>
          <Title order={1} size="h2">
            {step === "code" ? t("code.title") : t("title")}
          </Title>
          {search.error && step === "password" && (
            <Alert color="red" title={t("sso.failed")} data-problem={search.error}>
              {t(`sso.error.${search.error}`, { defaultValue: t("sso.error.unknown") })}
            </Alert>
          )}
          {isLost && !give.isPending && <Alert color="yellow">{t("error.start_over")}</Alert>}
          {last.data?.kind === "refused" && !last.isPending && (
            <Alert color="red" role="alert" data-problem={last.data.code}>
              {t(`error.${last.data.code}`, { defaultValue: last.data.message })}
            </Alert>
          )}
          {last.isError && <ProblemAlert error={last.error} />}
          {look.isError && <ProblemAlert error={look.error} onRetry={() => look.mutate()} />}
          <QueryProblem of={config} />
          {look.isPending ? (
            <Center p="md">
              <Loader aria-label={t("sso.coming_back")} />
            </Center>
          ) : step === "already" ? (
            <AlreadyIn onGoOn={goOn} onOther={() => setStep("password")} />
          ) : step === "code" ? (
            <CodeStep
              isBusy={prove.isPending}
              onCode={(code) => prove.mutate(code)}
              onBack={() => setStep("password")}
            />
          ) : (
            <>
              <PasswordStep
                isBusy={give.isPending}
                isReady={config.isSuccess}
                onGiven={(login, password) => give.mutate({ login, password })}
              />
              {config.data?.providers.map((provider) => (
                <SingleSignOn key={provider.id} provider={provider} next={next} />
              ))}
            </>
          )}
        </Stack>
        {step === "password" && (
          <Text size="xs" c="dimmed" mt="lg">
            {t("forgotten")}
          </Text>
        )}
      </section>
    </main>
  );
}
