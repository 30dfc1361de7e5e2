import { Checkbox, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { change } from "@/api/requests";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { ShownOnce } from "@/ui/dialog/ShownOnce";
import { Snippet } from "@/shared/Teach";

const EMPTY: NewToken = { name: "", scopes: ["read"], expires_in_days: 90 };

function examples(token: string): string {
  const { origin } = window.location;
  return `curl -H "Authorization: Bearer ${token}" ${origin}/api/v1/subjects/
QMQ_TOKEN=${token} qmq apply --console ${origin} --dry-run -f subjects.yaml`;
}

/** A new token in one's own name, within what one's role may; shown once, with two ways to use it. */
export function CreateToken({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("tokens");
  const [token, setToken] = useState(EMPTY);
  const [made, setMade] = useState<string | null>(null);
  const fields = fieldsOf(token, (some) => setToken({ ...token, ...some }), "NewTokenRequest");
  return (
    <>
      <PreviewDialog
        opened={opened}
        onClose={onClose}
        title={t("create.title")}
        run={(attempt) => change("post", "/api/v1/tokens/", attempt, { body: token })}
        inputs={JSON.stringify(token)}
        isReady={token.name.trim() !== "" && token.scopes.length > 0}
        actionLabel={t("common:action.create")}
        doneMessage={t("create.done")}
        refreshes={[tokensKey]}
        onDone={(done) => {
          setMade(done.token);
          setToken(EMPTY);
        }}
      >
        <TextInput
          label={t("column.name")}
          description={t("create.name_hint")}
          autoComplete="off"
          data-autofocus
          {...fields.text("name")}
        />
        <Checkbox.Group label={t("column.scopes")} description={t("create.scopes_hint")} {...fields.chosen("scopes")}>
          {SCOPES.map((scope) => (
            <Checkbox
              key={scope}
              mt="xs"
              value={scope}
              label={t(`scope.${scope}`)}
              description={t(`scope_about.${scope}`)}
            />
          ))}
        </Checkbox.Group>
        <NativeSelect
          label={t("create.life")}
          value={String(token.expires_in_days)}
          onChange={(event) => fields.number("expires_in_days").onChange(Number(event.currentTarget.value))}
          data={LIFE_DAYS.map((days) => ({ value: String(days), label: t("create.days", { count: days }) }))}
        />
      </PreviewDialog>
      <ShownOnce secret={made} title={t("create.made")} label={t("create.token")} onClose={() => setMade(null)}>
        <div>
          <Text size="sm" fw={500}>
            {t("create.use")}
          </Text>
          <Snippet code={examples(made ?? "")} />
        </div>
      </ShownOnce>
    </>
  );
}

export type Token = Schema<"TokenRow">;
export type NewToken = Required<Omit<Schema<"NewTokenRequest">, "reason">>;
export type Scope = NewToken["scopes"][number];

export const SCOPES: readonly Scope[] = ["read", "messages", "operate", "admin"];
export const LIFE_DAYS = [7, 30, 90, 180, 365] as const;

export const tokensKey = ["tokens"] as const;
