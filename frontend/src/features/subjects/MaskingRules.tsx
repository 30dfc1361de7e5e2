import { Alert, Button, Divider, Group, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { may, useMe } from "@/api/me";
import { areComplete, EMPTY_RULE, HOWS, RULES_MAX, rulesOf, type Rule } from "@/features/subjects/masking";
import { MaskingPreview } from "@/features/subjects/MaskingPreview";
import { changeSubject, subjectsKey, type Subject } from "@/features/subjects/queries";
import { RuleFields } from "@/features/subjects/RuleFields";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Part } from "@/ui/page/Part";

/** What people do not see of a subject's messages: the rules, a preview of what they leave, and their change. */
export function MaskingRules({ subject, etag }: { subject: Subject; etag: string | null }) {
  const { t } = useTranslation("subjects");
  const mayChange = may(useMe(), "change_masking");
  const [isAsking, { open, close }] = useDisclosure();
  const [begun, setBegun] = useState({ rules: rulesOf(subject), etag });
  const [rules, setRules] = useState(begun.rules);
  const isChanged = JSON.stringify(rules) !== JSON.stringify(begun.rules);
  const isOutdated = begun.etag !== etag;
  const reload = () => {
    const now = rulesOf(subject);
    setBegun({ rules: now, etag });
    setRules(now);
  };
  if (isOutdated && !isChanged) reload();
  const put = (index: number, ...others: Rule[]) => setRules(rules.toSpliced(index, 1, ...others));
  return (
    <Part title={t("masking.title")}>
      <Stack gap="md" data-part="masking">
        <Text size="sm" c="dimmed">
          {rules.length ? t("masking.text") : t("masking.empty")} {!mayChange && t("masking.may_not")}
        </Text>
        {rules.map((rule, index) => (
          // Rules have no names: their order is what they are.
          <Stack key={index} gap="md">
            <RuleFields
              rule={rule}
              number={index + 1}
              isDisabled={!mayChange}
              onChange={(changed) => put(index, changed)}
              onRemove={() => put(index)}
            />
            <Divider />
          </Stack>
        ))}
        {isOutdated && isChanged && (
          <Alert color="orange" title={t("settings.outdated")}>
            {t("settings.outdated_hint")}
          </Alert>
        )}
        {mayChange && (
          <Group gap="sm">
            <Button
              variant="default"
              disabled={rules.length >= RULES_MAX}
              onClick={() => setRules([...rules, EMPTY_RULE])}
              data-action="add-rule"
            >
              {t("masking.add")}
            </Button>
            <Button
              onClick={open}
              disabled={!isChanged || isOutdated || !areComplete(rules)}
              data-action="save-masking"
            >
              {t("common:change.preview")}
            </Button>
            <Button variant="default" onClick={reload} disabled={!isChanged}>
              {t("settings.take_back")}
            </Button>
          </Group>
        )}
        {mayChange && rules.length > 0 && areComplete(rules) && <MaskingPreview subject={subject.name} rules={rules} />}
      </Stack>
      <ChangeDialog
        opened={isAsking}
        onClose={close}
        title={t("masking.dialog", { name: subject.name })}
        actionLabel={t("common:action.save")}
        doneMessage={t("masking.done", { name: subject.name })}
        run={(attempt) => changeSubject(subject.name, { masking: rules }, begun.etag, attempt)}
        wordOf={(field, value) => (field === "masking" ? sentences(value as Rule[], t) : undefined)}
        refreshes={[subjectsKey, ["messages"]]}
        onDone={() => setBegun({ ...begun, rules })}
      />
    </Part>
  );
}

type Translate = (key: string, options?: Record<string, unknown>) => string;

/** Rules in words, for the preview of a change. */
function sentences(rules: readonly Rule[], t: Translate): string {
  const line = ({ properties, json_paths: paths, how, roles }: Rule) =>
    t("masking.sentence", {
      what: [...properties, ...paths].join(", "),
      how: t(`masking.hows.${HOWS.includes(how) ? how : "hide"}`),
      who: roles.length ? roles.map((role) => t(`common:role.${role}`)).join(", ") : t("masking.nobody"),
    });
  return rules.length ? rules.map(line).join("; ") : t("masking.none");
}
