import { ActionIcon, Text, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { IconClock, IconLanguage, IconMoon, IconSun } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { zoneName } from "@/format/times";
import { LANGUAGES, setLanguage, type Language } from "@/i18n";
import { usePreferences } from "@/ui/preferences";

/** Between the viewer's zone and UTC. */
export function ZoneSwitch() {
  const { t } = useTranslation();
  const { zone, setZone } = usePreferences();
  const other = zone === "utc" ? "local" : "utc";
  return (
    <ActionIcon
      data-hint={t("settings.zone", { zone: zoneName(zone) })}
      variant="subtle"
      color="gray"
      size="lg"
      visibleFrom="sm"
      aria-label={t("settings.zone_switch", { zone: zoneName(other) })}
      onClick={() => setZone(other)}
    >
      {zone === "utc" ? (
        <Text size="10px" fw={700}>
          UTC
        </Text>
      ) : (
        <IconClock size={18} aria-hidden />
      )}
    </ActionIcon>
  );
}

/** To the other language, named in that language. */
export function LanguageSwitch() {
  const { i18n } = useTranslation();
  const other: Language = i18n.language === "zh" ? "en" : "zh";
  return (
    <ActionIcon
      data-hint={LANGUAGES[other]}
      variant="subtle"
      color="gray"
      size="lg"
      aria-label={LANGUAGES[other]}
      lang={other === "zh" ? "zh-CN" : "en"}
      data-language={other}
      onClick={() => void setLanguage(other)}
    >
      <IconLanguage size={18} aria-hidden />
    </ActionIcon>
  );
}

/** Between light and dark. */
export function SchemeSwitch() {
  const { t } = useTranslation();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const label = scheme === "dark" ? t("settings.light") : t("settings.dark");
  return (
    <ActionIcon
      data-hint={label}
      variant="subtle"
      color="gray"
      size="lg"
      data-scheme={scheme}
      aria-label={label}
      onClick={() => setColorScheme(scheme === "dark" ? "light" : "dark")}
    >
      {scheme === "dark" ? <IconSun size={18} aria-hidden /> : <IconMoon size={18} aria-hidden />}
    </ActionIcon>
  );
}
