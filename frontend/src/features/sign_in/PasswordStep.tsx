import { Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useEffect, useRef } from "react";
import { useTranslation } from "@/i18n/useTranslation";

function valueOf(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === "string" ? value : "";
}

/**
 * Name and password. The fields keep their own values: whatever a password manager fills in, and when, is what is sent.
 */
export function PasswordStep({
  isBusy,
  isReady,
  onGiven,
}: {
  isBusy: boolean;
  isReady: boolean;
  onGiven: (login: string, password: string) => void;
}) {
  const { t } = useTranslation("sign_in");
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        onGiven(valueOf(form, "username").trim(), valueOf(form, "password"));
      }}
    >
      <Stack>
        <TextInput
          ref={first}
          name="username"
          label={t("login")}
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          maxLength={254}
          required
          withAsterisk={false}
        />
        <PasswordInput
          name="password"
          label={t("password")}
          autoComplete="current-password"
          maxLength={200}
          required
          withAsterisk={false}
          visibilityToggleButtonProps={{ "aria-label": t("show_password"), tabIndex: 0 }}
        />
        <Button type="submit" loading={isBusy} disabled={!isReady} data-action="sign-in">
          {t("title")}
        </Button>
      </Stack>
    </form>
  );
}
