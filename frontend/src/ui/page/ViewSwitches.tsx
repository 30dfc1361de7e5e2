import { Text, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { IconClock, IconLanguage, IconMoon, IconSun } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { zoneName } from "@/format/times";
import { LANGUAGES, setLanguage, type Language } from "@/i18n";
import { IconButton } from "@/ui/menu/buttons";
import { usePreferences } from "@/ui/preferences";

const LOOK = { variant: "subtle", color: "gray" };

function Utc() {
  return (
    <Text size="10px" fw={700}>
      UTC
    </Text>
  );
}

/** Between the viewer's zone and UTC. */
export function ZoneSwitch() {
  const { t } = useTranslation();
  const { zone, setZone } = usePreferences();
  const other = zone === "utc" ? "local" : "utc";
  return (
    <IconButton
      {...LOOK}
      visibleFrom="sm"
      icon={zone === "utc" ? Utc : IconClock}
      hint={t("settings.zone", { zone: zoneName(zone) })}
      label={t("settings.zone_switch", { zone: zoneName(other) })}
      onClick={() => setZone(other)}
    />
  );
}

/** To the other language, named in that language. */
export function LanguageSwitch() {
  const { language } = useTranslation();
  const other: Language = language === "zh" ? "en" : "zh";
  return (
    <IconButton
      {...LOOK}
      icon={IconLanguage}
      label={LANGUAGES[other]}
      lang={other === "zh" ? "zh-CN" : "en"}
      data-language={other}
      onClick={() => void setLanguage(other)}
    />
  );
}

/** Between light and dark. */
export function SchemeSwitch() {
  const { t } = useTranslation();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const other = scheme === "dark" ? "light" : "dark";
  return (
    <IconButton
      {...LOOK}
      icon={scheme === "dark" ? IconSun : IconMoon}
      label={t(`settings.${other}`)}
      data-scheme={scheme}
      onClick={() => setColorScheme(other)}
    />
  );
}
