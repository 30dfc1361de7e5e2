import { Badge, Burger, Group, NavLink, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconServerBolt, IconUser } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useRouterState } from "@tanstack/react-router";
import { useEffect, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { firingOptions } from "@/api/alerts";
import { useMay, useMe, type Right } from "@/api/me";
import { Help } from "@/app/help/Help";
import { Jump } from "@/app/jump/Jump";
import { pages } from "@/app/pages";
import { Proof } from "@/app/Proof";
import { useSignOut } from "@/app/useSignOut";
import { RouterLink } from "@/ui/links/LinkTo";
import { Logo } from "@/ui/Logo";
import { MenuButton } from "@/ui/menu/MenuButton";
import type { NavEntry } from "@/ui/page/page";
import { setFiring } from "@/ui/page/title";
import { LanguageSwitch, SchemeSwitch, ZoneSwitch } from "@/ui/page/ViewSwitches";
import { usePreferences } from "@/ui/preferences";

const SECTIONS: readonly NavEntry["section"][] = ["messages", "cluster", "insight", "settings"];

/** Navigation, header, and the page. */
export function Layout({ children }: { children: ReactNode }) {
  const { t } = useTranslation();
  const [isOpen, { toggle, close }] = useDisclosure();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(close, [path, close]);
  return (
    <div className="shell">
      <a href="#main" className="skip-link">
        {t("nav.skip")}
      </a>
      <header className="shell-header">
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t("nav.menu")} />
            <RouterLink to="/" className="brand" aria-label="PyQMQ">
              <Logo size={24} />
              <span className="brand-name">PyQMQ</span>
            </RouterLink>
            <Systems />
          </Group>
          <Group gap={4} wrap="nowrap">
            <Jump />
            <ZoneSwitch />
            <LanguageSwitch />
            <SchemeSwitch />
            <Help />
            <Person />
          </Group>
        </Group>
      </header>
      <nav className="shell-nav" aria-label={t("nav.label")} data-open={isOpen}>
        <Navigation path={path} />
      </nav>
      <main className="shell-main" id="main" tabIndex={-1}>
        {children}
      </main>
      <Proof />
    </div>
  );
}

function Navigation({ path }: { path: string }) {
  const { t } = useTranslation();
  const may = useMay();
  const entries = pages.flatMap((page) => (page.nav ? [{ ...page.nav, path: page.path }] : []));
  return (
    <>
      {SECTIONS.map((section) => {
        const shown = entries
          .filter((entry) => entry.section === section && (!entry.right || may(entry.right as Right)))
          .sort((a, b) => a.order - b.order);
        if (shown.length === 0) return null;
        return (
          <div key={section}>
            <Text size="xs" c="dimmed" fw={600} px="sm" pt="sm" pb={4}>
              {t(`nav.section.${section}`)}
            </Text>
            {shown.map(({ path: to, label, icon: Icon }) => (
              <NavLink
                key={to}
                component={RouterLink}
                to={to}
                label={t(`nav.${label}`)}
                leftSection={<Icon size={18} stroke={1.6} aria-hidden />}
                rightSection={to === "/alerts" && <FiringAlerts />}
                active={to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`)}
              />
            ))}
          </div>
        );
      })}
    </>
  );
}

/** How many alerts are firing, critical ones and warnings; their sum is in the tab's title. */
function FiringAlerts() {
  const { t } = useTranslation();
  const { data } = useQuery(firingOptions());
  const alerts = data?.results ?? [];
  const critical = alerts.filter(({ severity }) => severity === "critical").length;
  const warnings = alerts.length - critical;
  // Critical ones come first: where the list is cut off, what is counted last may be more.
  const more = data?.next ? "+" : "";
  useEffect(() => {
    setFiring(alerts.length > 0 ? `${alerts.length}${more}` : "");
    return () => setFiring("");
  }, [alerts.length, more]);
  return (
    <Group gap={4} wrap="nowrap">
      {critical > 0 && (
        <Badge color="red" size="sm" data-critical={critical}>
          {`${critical}${warnings > 0 ? "" : more}`}
          <span className="sr-only"> {t("nav.critical", { count: critical })}</span>
        </Badge>
      )}
      {warnings > 0 && (
        <Badge color="yellow" variant="light" size="sm" data-warnings={warnings}>
          {`${warnings}${more}`}
          <span className="sr-only"> {t("nav.warnings", { count: warnings })}</span>
        </Badge>
      )}
    </Group>
  );
}

/** Which system this is, and a way to the consoles of others; each has its own accounts. */
function Systems() {
  const { t } = useTranslation();
  const { systems } = useMe().console;
  if (systems.length === 0) return null;
  const here = systems.find(({ url }) => new URL(url).origin === window.location.origin);
  return (
    <MenuButton
      withText
      label={here?.name ?? t("systems.other")}
      icon={<IconServerBolt size={16} aria-hidden />}
      title={t("systems.title")}
      entries={systems.map(({ name, url }) => ({ label: name, page: url }))}
    />
  );
}

function Person() {
  const { t } = useTranslation();
  const me = useMe();
  const { density, setDensity } = usePreferences();
  const leave = useSignOut();
  return (
    <MenuButton
      variant="subtle"
      color="gray"
      label={t("settings.account", { name: me.username })}
      icon={<IconUser size={18} aria-hidden />}
      title={`${me.username} · ${t(`role.${me.role}`)}`}
      entries={[
        { label: t("nav.account"), to: "/account" },
        {
          label: t("settings.density"),
          checked: density === "compact",
          onClick: () => setDensity(density === "compact" ? "comfortable" : "compact"),
        },
        { label: t("action.sign_out"), onClick: () => leave.mutate() },
      ]}
    />
  );
}
