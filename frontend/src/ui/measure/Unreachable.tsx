import { Alert, List } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { useSentence } from "@/i18n/useSentence";

/**
 * Which broker groups could not be asked, and why: what they hold is missing from what is shown. Nothing when all
 * answered.
 */
export function Unreachable({ of }: { of: Readonly<Record<string, string>> | undefined }) {
  const { t } = useTranslation();
  const reasonOf = useSentence();
  const names = Object.entries(of ?? {});
  if (names.length === 0) return null;
  return (
    <Alert color="yellow" title={t("unreachable.title")} mb="xs" role="status" data-unreachable="">
      <List size="sm">
        {names.map(([name, why]) => (
          <List.Item key={name} className="break">
            <b>{name}</b>: {reasonOf(why)}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}
