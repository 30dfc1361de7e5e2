import { Button, Group, PasswordInput, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import { asProblem } from "@/api/problem";
import { changePassword, sessionsKey } from "@/features/account/queries";
import { Section } from "@/features/account/Section";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { useSentence } from "@/i18n/useSentence";

const CHARS_MIN = 12;
const CHARS_MAX = 200;

/** A new password of one's own: the one before is asked for, and the other sessions end. */
export function Password() {
  const { t } = useTranslation("account");
  const me = useMe();
  const client = useQueryClient();
  const sentence = useSentence();
  const form = useRef<HTMLFormElement>(null);
  const [again, setAgain] = useState("");
  const [fresh, setFresh] = useState("");
  const change = useMutation({
    mutationFn: (current: string) => changePassword(current, fresh),
    onSuccess: async () => {
      form.current?.reset();
      setFresh("");
      setAgain("");
      notifications.show({ message: t("password.changed"), color: "teal" });
      await client.invalidateQueries({ queryKey: sessionsKey });
    },
  });
  if (!me.has_password) {
    return (
      <Section title={t("password.title")}>
        <Text size="sm">{t("password.elsewhere")}</Text>
      </Section>
    );
  }
  const problem = change.isError ? asProblem(change.error) : null;
  const errorOf = (field: string) => problem?.fields[field]?.map(sentence).join(" ");
  const isKnown = Boolean(errorOf("current_password") ?? errorOf("new_password"));
  const shared = {
    maxLength: CHARS_MAX,
    required: true,
    withAsterisk: false,
    visibilityToggleButtonProps: { "aria-label": t("password.show"), tabIndex: 0 },
  };
  return (
    <Section title={t("password.title")}>
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          const current = new FormData(event.currentTarget).get("current_password");
          if (typeof current === "string") change.mutate(current);
        }}
      >
        <Stack gap="sm">
          {/* Password managers want to know whose password it is. */}
          <input hidden name="username" autoComplete="username" value={me.username} readOnly />
          <PasswordInput
            {...shared}
            name="current_password"
            label={t("password.current")}
            autoComplete="current-password"
            error={errorOf("current_password")}
          />
          <PasswordInput
            {...shared}
            label={t("password.new")}
            description={t("password.hint", { count: CHARS_MIN })}
            autoComplete="new-password"
            minLength={CHARS_MIN}
            value={fresh}
            onChange={(event) => setFresh(event.currentTarget.value)}
            error={errorOf("new_password")}
          />
          <PasswordInput
            {...shared}
            label={t("password.again")}
            autoComplete="new-password"
            value={again}
            onChange={(event) => setAgain(event.currentTarget.value)}
            error={again && again !== fresh ? t("password.differs") : undefined}
          />
          {problem && !isKnown && <ProblemAlert error={problem} />}
          <Text size="sm" c="dimmed">
            {t("password.ends_others")}
          </Text>
          <Group justify="flex-end">
            <Button type="submit" loading={change.isPending} disabled={fresh.length < CHARS_MIN || fresh !== again}>
              {t("password.change")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}
