import { Button, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMe } from "@/api/me";
import { Problem } from "@/api/problem";
import { onProofNeeded } from "@/api/proof";
import { allauth } from "@/api/session";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { Dialog, DialogFooter } from "@/ui/Dialog";

/** Asks for password or code again when the API wants a proof that the right person still sits here. */
export function Proof() {
  const { t } = useTranslation();
  const me = useMe();
  const [isOpen, setOpen] = useState(false);
  const [given, setGiven] = useState("");
  const answer = useRef<((proved: boolean) => void) | null>(null);
  useEffect(
    () =>
      onProofNeeded(
        () =>
          new Promise<boolean>((resolve) => {
            answer.current = resolve;
            setGiven("");
            setOpen(true);
          }),
      ),
    [],
  );
  const finish = (proved: boolean) => {
    setOpen(false);
    answer.current?.(proved);
    answer.current = null;
  };
  const prove = useMutation({
    mutationFn: async () => {
      const answer = me.has_second_factor
        ? await allauth("POST", "auth/2fa/reauthenticate", { code: given })
        : await allauth("POST", "auth/reauthenticate", { password: given });
      const [error] = answer.errors;
      if (error) throw new Problem(answer.status, error.code, error.message, "");
    },
    onSuccess: () => finish(true),
  });
  return (
    <Dialog opened={isOpen} onClose={() => finish(false)} title={t("proof.title")}>
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
            <Button variant="default" onClick={() => finish(false)}>
              {t("action.cancel")}
            </Button>
            <Button type="submit" disabled={!given} loading={prove.isPending}>
              {t("proof.go_on")}
            </Button>
          </DialogFooter>
        </Stack>
      </form>
    </Dialog>
  );
}
