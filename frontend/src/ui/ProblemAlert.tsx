import { Alert, Button, Code, Group, List, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconRefresh } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { asProblem } from "@/api/problem";

/** What failed, which value, and what to try. Field errors are listed too, for forms that show none beside their fields. */
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
  const problem = asProblem(error);
  const [kind] = problem.code.split(".");
  const title =
    problem.status === 0 && problem.code === "console.unreachable"
      ? t("problem.unreachable")
      : problem.status === 403
        ? t("problem.forbidden")
        : problem.status === 404
          ? t("problem.not_found")
          : problem.isTransient
            ? t("problem.transient")
            : t("problem.title");
  const advice =
    problem.code === "console.unreachable"
      ? t("problem.try_connection")
      : problem.status === 412
        ? t("problem.try_reload")
        : problem.status === 403
          ? t("problem.try_rights")
          : problem.isTransient
            ? t("problem.try_again")
            : "";
  const fields = Object.entries(problem.fields);
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle aria-hidden />}
      title={title}
      data-problem={problem.code}
      data-kind={kind}
    >
      <Stack gap="xs">
        {(problem.detail || problem.title) && <Text size="sm">{problem.detail || problem.title}</Text>}
        {withFields && fields.length > 0 && (
          <List size="sm">
            {fields.map(([name, messages]) => (
              <List.Item key={name}>
                <Code>{name}</Code> {messages.join(" ")}
              </List.Item>
            ))}
          </List>
        )}
        {advice && <Text size="sm">{advice}</Text>}
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
