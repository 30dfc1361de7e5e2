import { Button, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import { Problem } from "@/api/problem";
import { allauth } from "@/api/session";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

interface Ends {
  onProved: () => void;
  onCancel: () => void;
}

/** Asks for password or code again. */
export function ProofDialog({ opened, ...ends }: Ends & { opened: boolean }) {
  const { t } = useTranslation();
  return (
    <Dialog opened={opened} onClose={ends.onCancel} title={t("proof.title")}>
      {opened && <ProofForm {...ends} />}
    </Dialog>
  );
}

function ProofForm({ onProved, onCancel }: Ends) {
  const { t } = useTranslation();
  const me = useMe();
  const [given, setGiven] = useState("");
  const prove = useMutation({
    mutationFn: async () => {
      const answer = me.has_second_factor
        ? await allauth("POST", "auth/2fa/reauthenticate", { code: given })
        : await allauth("POST", "auth/reauthenticate", { password: given });
      const [error] = answer.errors;
      if (error) throw new Problem(answer.status, error.code, error.message, "");
    },
    onSuccess: onProved,
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        prove.mutate();
      }}
    >
      <Stack>
        <Text size="sm">{t("proof.why")}</Text>
        {me.has_second_factor ? (
          <TextInput
            label={t("proof.code")}
            value={given}
            inputMode="numeric"
            autoComplete="one-time-code"
            data-autofocus
            onChange={(event) => setGiven(event.currentTarget.value)}
          />
        ) : (
          <PasswordInput
            label={t("proof.password")}
            value={given}
            autoComplete="current-password"
            data-autofocus
            visibilityToggleButtonProps={{ "aria-label": t("proof.show"), tabIndex: 0 }}
            onChange={(event) => setGiven(event.currentTarget.value)}
          />
        )}
        {prove.isError && <ProblemAlert error={prove.error} />}
        <DialogFooter>
          <Button variant="default" onClick={onCancel}>
            {t("action.cancel")}
          </Button>
          <Button type="submit" disabled={!given} loading={prove.isPending}>
            {t("proof.go_on")}
          </Button>
        </DialogFooter>
      </Stack>
    </form>
  );
}
