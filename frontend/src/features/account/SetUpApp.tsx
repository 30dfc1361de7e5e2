import { Button, Group, List, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { addApp, type Secret } from "@/features/account/queries";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Snippet } from "@/shared/Teach";

const QrCode = lazy(() => import("@/features/account/QrCode"));

/** The secret goes into the app, by picture or typed; a first code proves that it got there. */
export function SetUpApp({ secret, onDone, onCancel }: { secret: Secret; onDone: () => void; onCancel: () => void }) {
  const { t } = useTranslation("account");
  const [code, setCode] = useState("");
  const add = useMutation({ mutationFn: addApp, onSuccess: onDone, onError: () => setCode("") });
  return (
    <Group align="flex-start" gap="xl">
      <Suspense fallback={<Skeleton w={208} h={208} />}>
        <QrCode text={secret.address} label={t("factor.picture")} />
      </Suspense>
      <form
        className="grow"
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate(code);
        }}
      >
        <Stack gap="sm" maw={520}>
          <List type="ordered" size="sm">
            <List.Item>{t("factor.step_scan")}</List.Item>
            <List.Item>{t("factor.step_code")}</List.Item>
          </List>
          <div>
            <Text size="sm" fw={500}>
              {t("factor.secret")}
            </Text>
            <Snippet code={secret.secret} />
          </div>
          <TextInput
            name="code"
            label={t("factor.code")}
            inputMode="numeric"
            autoComplete="one-time-code"
            maxLength={16}
            required
            withAsterisk={false}
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
          />
          {add.isError && <ProblemAlert error={add.error} withFields={false} />}
          <Group>
            <Button type="submit" loading={add.isPending} data-action="add-app">
              {t("factor.confirm")}
            </Button>
            <Button variant="default" onClick={onCancel}>
              {t("common:action.cancel")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Group>
  );
}
