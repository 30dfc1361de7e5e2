import { AppShell, Badge, Burger, Group, NavLink, ScrollArea, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconServerBolt, IconUser } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useRouterState } from "@tanstack/react-router";
import { useEffect, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
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
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 224, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a href="#main" className="skip-link">
        {t("nav.skip")}
      </a>
      <AppShell.Header>
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
      </AppShell.Header>
      <AppShell.Navbar component="nav" aria-label={t("nav.label")}>
        <Navigation path={path} />
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        {children}
      </AppShell.Main>
      <Proof />
    </AppShell>
  );
}

function Navigation({ path }: { path: string }) {
  const { t } = useTranslation();
  const may = useMay();
  const entries = pages.flatMap((page) => (page.nav ? [{ ...page.nav, path: page.path }] : []));
  return (
    <ScrollArea p="xs">
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
                rightSection={to === "/alerts" && <CriticalAlerts />}
                active={to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`)}
              />
            ))}
          </div>
        );
      })}
    </ScrollArea>
  );
}

/** How many critical alerts are firing. */
function CriticalAlerts() {
  const { t } = useTranslation();
  const { data } = useQuery(firingOptions("critical"));
  const count = data?.results.length ?? 0;
  if (count === 0) return null;
  return (
    <Badge color="red" size="sm" data-critical={count}>
      {data?.next ? `${count}+` : count}
      <span className="sr-only"> {t("nav.critical", { count })}</span>
    </Badge>
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
