import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";

/** The second factor: a code of the authenticator app, or one of the recovery codes. */
export function CodeStep({
  isBusy,
  onCode,
  onBack,
}: {
  isBusy: boolean;
  onCode: (code: string) => void;
  onBack: () => void;
}) {
  const { t } = useTranslation("sign_in");
  const [isRecovery, setRecovery] = useState(false);
  const [code, setCode] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [isRecovery]);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onCode(code);
        setCode(""); // A code is good for one attempt.
        field.current?.focus();
      }}
    >
      <Stack>
        <Text size="sm">{isRecovery ? t("code.recovery_hint") : t("code.app_hint")}</Text>
        <TextInput
          ref={field}
          name="code"
          label={isRecovery ? t("code.recovery") : t("code.app")}
          inputMode={isRecovery ? "text" : "numeric"}
          autoComplete={isRecovery ? "off" : "one-time-code"}
          autoCapitalize="none"
          spellCheck={false}
          maxLength={32}
          required
          withAsterisk={false}
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
        />
        <Button type="submit" loading={isBusy} data-action="code">
          {t("code.go_on")}
        </Button>
        <Group justify="space-between">
          <Button variant="subtle" size="compact-sm" onClick={() => setRecovery(!isRecovery)}>
            {isRecovery ? t("code.use_app") : t("code.use_recovery")}
          </Button>
          <Button variant="subtle" size="compact-sm" color="gray" onClick={onBack}>
            {t("code.back")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
