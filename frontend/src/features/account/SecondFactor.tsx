import { Badge, Button, Group, Loader, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import { askForProof } from "@/api/proof";
import { factorsOptions, newSecret, recoveryCodes, type Secret } from "@/features/account/queries";
import { RecoveryCodes } from "@/features/account/RecoveryCodes";
import { RemoveDialog } from "@/features/account/RemoveDialog";
import { Section } from "@/features/account/Section";
import { SetUpApp } from "@/features/account/SetUpApp";
import { Instant } from "@/ui/measure/Instant";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { QueryProblem } from "@/ui/page/loaded";

const CODES_FEW = 3;

function instant(seconds: number | null): string | null {
  return seconds === null ? null : new Date(seconds * 1000).toISOString();
}

/** An authenticator app, and codes for the day the phone is lost. */
export function SecondFactor() {
  const { t } = useTranslation("account");
  const me = useMe();
  const client = useQueryClient();
  const factors = useQuery(factorsOptions());
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  const [isRemoving, setRemoving] = useState(false);
  const refresh = () => client.invalidateQueries({ queryKey: ["me"] });
  // The proof comes first: typed in between, it would take longer than a code lives.
  const begin = useMutation({
    mutationFn: async (): Promise<Secret | null> => {
      const isProved = !me.has_password || (await askForProof());
      return isProved ? newSecret() : null;
    },
  });
  const showCodes = useMutation({ mutationFn: recoveryCodes, onSuccess: setCodes });
  const renew = useMutation({
    mutationFn: () => recoveryCodes(true),
    onSuccess: async (made) => {
      setCodes(made);
      await refresh();
    },
  });
  const { data } = factors;
  return (
    <Section title={t("factor.title")}>
      {factors.isPending && <Loader size="sm" aria-label={t("factor.title")} />}
      <QueryProblem of={factors} />
      {data && (
        <Group gap="sm">
          <Badge color={data.app ? "teal" : "gray"} variant="light" data-factor={data.app ? "on" : "off"}>
            {data.app ? t("factor.on") : t("factor.off")}
          </Badge>
          {data.app && (
            <Text size="sm">
              {t("factor.since")} <Instant at={instant(data.app.created_at)} /> · {t("factor.used")}{" "}
              <Instant at={instant(data.app.last_used_at)} relative />
            </Text>
          )}
        </Group>
      )}
      <Text size="sm" c="dimmed">
        {t("factor.what")}
      </Text>
      {data && !data.app && !begin.data && (
        <Group>
          <Button loading={begin.isPending} onClick={() => begin.mutate()} data-action="set-up">
            {t("factor.set_up")}
          </Button>
        </Group>
      )}
      {begin.isError && <ProblemAlert error={begin.error} />}
      {data && !data.app && begin.data && (
        <SetUpApp
          secret={begin.data}
          onCancel={begin.reset}
          onDone={() => {
            begin.reset();
            notifications.show({ message: t("factor.done"), color: "teal" });
            showCodes.mutate(false, { onSettled: () => void refresh() });
          }}
        />
      )}
      {data?.app && (
        <>
          <Text size="sm" c={data.codes && data.codes.unused <= CODES_FEW ? "orange" : undefined}>
            {data.codes ? t("codes.left", { count: data.codes.unused, total: data.codes.total }) : t("codes.none")}
          </Text>
          <Group>
            <Button
              variant="default"
              loading={renew.isPending}
              onClick={() => renew.mutate()}
              data-action="renew-codes"
            >
              {t("codes.renew")}
            </Button>
            <Button variant="default" color="red" onClick={() => setRemoving(true)} data-action="remove-app">
              {t("factor.remove")}
            </Button>
          </Group>
        </>
      )}
      {renew.isError && <ProblemAlert error={renew.error} />}
      {showCodes.isError && <ProblemAlert error={showCodes.error} onRetry={() => showCodes.mutate(false)} />}
      <RecoveryCodes codes={codes} onClose={() => setCodes(null)} />
      {isRemoving && <RemoveDialog onClose={() => setRemoving(false)} />}
    </Section>
  );
}
