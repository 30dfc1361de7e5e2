import { Checkbox, NativeSelect, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  createToken,
  LIFE_DAYS,
  NAME_CHARS_MAX,
  SCOPES,
  scopesOptions,
  tokensKey,
  type NewToken,
  type Scope,
} from "@/features/tokens/queries";
import { PlanDialog } from "@/ui/ChangeDialog";
import { ShownOnce } from "@/ui/ShownOnce";
import { Snippet } from "@/ui/Teach";

const EMPTY: NewToken = { name: "", scopes: ["read"], expires_in_days: 90 };

function examples(token: string): string {
  const { origin } = window.location;
  return `curl -H "Authorization: Bearer ${token}" ${origin}/api/v1/subjects/
QMQ_TOKEN=${token} qmq apply --console ${origin} --dry-run -f subjects.yaml`;
}

/** A new token in one's own name, within what one's role may; shown once, with two ways to use it. */
export function CreateToken({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("tokens");
  const client = useQueryClient();
  const rights = useQuery(scopesOptions());
  const [token, setToken] = useState(EMPTY);
  const [made, setMade] = useState<string | null>(null);
  const set = (change: Partial<NewToken>) => setToken({ ...token, ...change });
  const rightsOf = (scope: Scope) => rights.data?.find(({ name }) => name === scope)?.rights.join(", ");
  return (
    <>
      <PlanDialog
        opened={opened}
        onClose={onClose}
        title={t("create.title")}
        run={(attempt) => createToken(token, attempt)}
        inputs={JSON.stringify(token)}
        isReady={token.name.trim() !== "" && token.scopes.length > 0}
        actionLabel={t("common:action.create")}
        doneMessage={t("create.done")}
        onDone={(done) => {
          setMade(done.token);
          setToken(EMPTY);
          void client.invalidateQueries({ queryKey: tokensKey });
        }}
      >
        <TextInput
          label={t("column.name")}
          description={t("create.name_hint")}
          value={token.name}
          maxLength={NAME_CHARS_MAX}
          autoComplete="off"
          data-autofocus
          onChange={(event) => set({ name: event.currentTarget.value })}
        />
        <Checkbox.Group
          label={t("column.scopes")}
          description={t("create.scopes_hint")}
          value={token.scopes}
          onChange={(scopes) => set({ scopes: scopes })}
        >
          {SCOPES.map((scope) => (
            <Checkbox key={scope} mt="xs" value={scope} label={t(`scope.${scope}`)} description={rightsOf(scope)} />
          ))}
        </Checkbox.Group>
        <NativeSelect
          label={t("create.life")}
          value={String(token.expires_in_days)}
          onChange={(event) => set({ expires_in_days: Number(event.currentTarget.value) })}
          data={LIFE_DAYS.map((days) => ({ value: String(days), label: t("create.days", { count: days }) }))}
        />
      </PlanDialog>
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
