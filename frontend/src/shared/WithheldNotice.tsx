import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { count } from "@/format/numbers";
import { measured, useLiveEntry } from "@/live/useLive";
import { LinkTo } from "@/ui/links/LinkTo";
import { useLanguage } from "@/ui/preferences";

const NONE: readonly unknown[] = [];

/** How many messages of a subject are lost to damage, and on which broker groups; nothing when there are none. */
export function WithheldNotice({ path, subject }: { path: string; subject: string }) {
  const { t } = useTranslation();
  const language = useLanguage();
  const entry = useLiveEntry(path, "subjects", subject);
  const { value } = measured(entry, "withheld");
  if (!value) return null;
  const on = Array.isArray(entry?.withheld_on) ? (entry.withheld_on as readonly unknown[]) : NONE;
  const names = on.filter((name) => typeof name === "string");
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle aria-hidden />}
      title={t("withheld.title", { count: value, shown: count(value, language) })}
      data-withheld={value}
    >
      <Text size="sm">{t("withheld.text")}</Text>
      <Text size="sm">
        {t("withheld.on")}
        {names.map((name) => (
          <span key={name}>
            {" "}
            <LinkTo to="/brokers/$name" params={{ name }} inherit>
              {name}
            </LinkTo>
          </span>
        ))}
      </Text>
    </Alert>
  );
}
