import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { change } from "@/api/requests";
import { subjectsKey } from "@/features/subjects/queries";
import { SubjectFields } from "@/features/subjects/SubjectFields";
import { changesOf, EMPTY, problemsOf } from "@/features/subjects/values";
import { PlanDialog } from "@/ui/ChangeDialog";

/** Make a subject before its first message: with an owner, limits and retention from the start. */
export function CreateSubject({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("subjects");
  const navigate = useNavigate();
  const [form, setForm] = useState(EMPTY);
  const close = () => {
    setForm(EMPTY);
    onClose();
  };
  return (
    <PlanDialog
      opened={opened}
      onClose={close}
      title={t("create.title")}
      actionLabel={t("create.action")}
      doneMessage={t("create.done", { name: form.name })}
      isReady={Object.keys(problemsOf(form)).length === 0}
      inputs={JSON.stringify(form)}
      run={(attempt) =>
        change("post", "/api/v1/subjects/", attempt, { body: { name: form.name, ...changesOf(EMPTY, form) } })
      }
      refreshes={[subjectsKey]}
      onDone={({ target }) => void navigate({ to: "/subjects/$subject", params: { subject: target } })}
    >
      <SubjectFields form={form} onChange={setForm} isNew />
    </PlanDialog>
  );
}
