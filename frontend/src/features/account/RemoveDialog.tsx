import { Alert, Button, Stack, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useMe } from "@/api/me";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { Dialog, DialogFooter } from "@/ui/Dialog";

/** Turning the second factor off leaves the password alone: the own name is to be typed. */
export function RemoveDialog({
  opened,
  onClose,
  remove,
  onDone,
}: {
  opened: boolean;
  onClose: () => void;
  remove: () => Promise<unknown>;
  onDone: () => void;
}) {
  const { t } = useTranslation("account");
  const me = useMe();
  const [typed, setTyped] = useState("");
  const close = () => {
    setTyped("");
    onClose();
  };
  const off = useMutation({
    mutationFn: remove,
    onSuccess: () => {
      notifications.show({ message: t("factor.removed"), color: "teal" });
      onDone();
      close();
    },
  });
  return (
    <Dialog opened={opened} onClose={close} title={t("factor.remove")}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          off.mutate();
        }}
      >
        <Stack>
          <Alert color="orange" title={t("common:change.what_happens")}>
            {t("factor.remove_plan")}
          </Alert>
          <TextInput
            label={t("common:change.type_name", { name: me.username })}
            value={typed}
            autoComplete="off"
            spellCheck={false}
            data-confirm=""
            onChange={(event) => setTyped(event.currentTarget.value)}
          />
          {off.isError && <ProblemAlert error={off.error} />}
          <DialogFooter>
            <Button variant="default" onClick={close}>
              {t("common:action.cancel")}
            </Button>
            <Button type="submit" color="red" disabled={typed !== me.username} loading={off.isPending}>
              {t("factor.remove")}
            </Button>
          </DialogFooter>
        </Stack>
      </form>
    </Dialog>
  );
}
