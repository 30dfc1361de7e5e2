import { Alert, Button, Code, Group, List, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconRefresh } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { asProblem } from "@/api/problem";
import { useSentence } from "@/i18n/useSentence";
import { ProblemText } from "@/ui/page/ProblemText";

interface Texts {
  title: string;
  advice?: string;
}

const TEXTS: Readonly<Record<"unreachable" | "transient" | "other", Texts>> = {
  unreachable: { title: "problem.unreachable", advice: "problem.try_connection" },
  transient: { title: "problem.transient", advice: "problem.try_again" },
  other: { title: "problem.title" },
};
const BY_STATUS: Readonly<Record<number, Texts>> = {
  403: { title: "problem.forbidden", advice: "problem.try_rights" },
  404: { title: "problem.not_found" },
  412: { title: "problem.title", advice: "problem.try_reload" },
};

/**
 * What failed, which value, and what to try. Field errors are listed too, for forms that show none beside their fields;
 * instead of the API's sentence, where that says no more.
 */
export function ProblemAlert({
  error,
  onRetry,
  withFields = true,
}: {
  error: unknown;
  onRetry?: () => void;
  withFields?: boolean;
}) {
  const { t } = useTranslation();
  const sentence = useSentence();
  const problem = asProblem(error);
  const [kind] = problem.code.split(".");
  const isUnreachable = problem.code === "console.unreachable";
  const { title, advice } =
    (isUnreachable ? TEXTS.unreachable : problem.code === "access.csrf" ? TEXTS.other : BY_STATUS[problem.status]) ??
    (problem.isTransient ? TEXTS.transient : TEXTS.other);
  const fields = Object.entries(withFields ? problem.fields : {});
  const isListed =
    fields.length > 0 &&
    fields.map(([name, messages]) => `${name}: ${messages.join(" ")}`).join("; ") === problem.detail;
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle aria-hidden />}
      title={t(title)}
      data-problem={problem.code}
      data-kind={kind}
    >
      <Stack gap="xs">
        {!isListed && (problem.detail || problem.title) && <ProblemText error={problem} />}
        {fields.length > 0 && (
          <List size="sm">
            {fields.map(([name, messages]) => (
              <List.Item key={name}>
                <Code>{name}</Code> {messages.map(sentence).join(" ")}
              </List.Item>
            ))}
          </List>
        )}
        {advice && <Text size="sm">{t(advice)}</Text>}
        <Group gap="sm">
          {onRetry && (
            <Button size="xs" variant="default" leftSection={<IconRefresh size={14} aria-hidden />} onClick={onRetry}>
              {t("action.retry")}
            </Button>
          )}
          <Text size="xs" c="dimmed">
            {problem.code}
            {problem.requestId && ` · ${t("problem.request", { id: problem.requestId })}`}
          </Text>
        </Group>
      </Stack>
    </Alert>
  );
}
