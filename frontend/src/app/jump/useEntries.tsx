import type { Target } from "@/ui/links/addresses";
import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import {
  IconBaselineDensityMedium,
  IconBell,
  IconBolt,
  IconClock,
  IconHelp,
  IconHistory,
  IconLanguage,
  IconLogout,
  IconMail,
  IconMailOff,
  IconMessages,
  IconMoon,
  IconServer,
  IconServer2,
  IconSun,
  IconUser,
  IconUsers,
  IconUsersGroup,
} from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay, useMe, type Right } from "@/api/me";
import { addressOf, fits, hintOf, type Found } from "@/app/jump/places";
import { recentOf, remember } from "@/app/jump/recent";
import { editsBetween } from "@/app/jump/typos";
import type { Parsed } from "@/app/jump/verbs";
import { pages } from "@/app/pages";
import { useSignOut } from "@/app/useSignOut";
import { zoneName } from "@/format/times";
import { LANGUAGES, setLanguage, type Language } from "@/i18n";
import { useGoTo } from "@/ui/links/LinkTo";
import type { NavEntry } from "@/ui/page/page";
import { usePreferences } from "@/ui/preferences";

export type Icon = NavEntry["icon"];

/** A line of the box. */
export interface Entry {
  id: string;
  label: string;
  hint: string;
  icon: Icon;
  run: () => void;
}

export interface Section {
  id: "recent" | "pages" | "found" | "actions" | "meant";
  entries: readonly Entry[];
}

const ICONS: Record<Found["kind"], Icon> = {
  subject: IconMessages,
  consumer_group: IconUsersGroup,
  broker_group: IconServer2,
  node: IconServer,
  team: IconUsers,
  alert_rule: IconBell,
  user: IconUser,
  message: IconMail,
  dead_letter: IconMailOff,
  delayed_message: IconClock,
};

/** IDs as clients make them begin with a date and a time. */
const IS_MESSAGE_ID = /^[0-9]{6}\.[0-9]{6}\.\S{3,}$/;

/**
 * What the box offers for a text: recent places (without a text), pages, what the API found, actions, else those that
 * are meant with typing errors; for a text that begins with a verb, that with each place it can be done with.
 * `guessed`: what the API found for what is behind a verb with a typing error.
 */
export function useEntries(
  text: string,
  { verb, isGuess }: Pick<Parsed, "verb" | "isGuess">,
  found: readonly Found[],
  guessed: readonly Found[],
): Section[] {
  const { t } = useTranslation();
  const me = useMe();
  const may = useMay();
  const goTo = useGoTo();
  const actions = useActions();
  const go = (entry: { id: string; kind: string; label: string; hint: string; address: Target }) => {
    remember(me.id, entry);
    void goTo(entry.address);
  };
  const all: Entry[] = pages.flatMap(({ path, nav }) => {
    if (path === "/account") return [pageEntry(path, t("nav.account"), IconUser, go)];
    if (!nav || (nav.right && !may(nav.right as Right))) return [];
    return [pageEntry(path, t(`nav.${nav.label}`), nav.icon, go)];
  });
  const recent = recentOf(me.id).flatMap((went): Entry[] => {
    // A page is called by the language of now, and gone with the right to it.
    if (went.kind === "page") return all.filter(({ id }) => id === went.id);
    return [{ id: went.id, label: went.label, hint: went.hint, icon: IconHistory, run: () => go(went) }];
  });
  const done: Entry[] = (isGuess ? guessed : found).flatMap((place) => {
    if (!verb || place.kind !== verb.kind || !may(verb.right)) return [];
    const label = t(`jump.verb.${verb.id}`, { name: place.name });
    const run = () => void goTo(verb.address(place));
    return [{ id: [verb.id, place.name, place.subject].join(" "), label, hint: hintOf(place), icon: IconBolt, run }];
  });
  if (verb && !isGuess) return done.length > 0 ? [{ id: "actions", entries: done }] : [];
  const places: Entry[] = found.map((place) => {
    const { kind, name } = place;
    const id = [kind, name, place.subject, place.broker_group, place.sequence, place.text].join(" ");
    const hint = [t(`jump.kind.${kind}`), hintOf(place)].filter(Boolean).join(" · ");
    const entry = { id, kind, label: name, hint, address: addressOf(place) };
    return { id, label: name, hint, icon: ICONS[kind], run: () => go(entry) };
  });
  const messageId = text.trim();
  if (IS_MESSAGE_ID.test(messageId)) {
    // An ID alone names neither a subject nor a broker group: the page searches all of them.
    const address: Target = { to: "/trace", search: { message_id: messageId } };
    const entry = { id: `trace ${messageId}`, label: t("jump.trace", { id: messageId }), hint: t("jump.trace_hint") };
    places.push({ ...entry, icon: IconMail, run: () => void goTo(address) });
  }
  const isEmpty = text.trim() === "";
  const fitting = (entries: readonly Entry[]) => entries.filter(({ label }) => fits(label, text));
  const [pagesFound, actionsFound] = [fitting(all), fitting(actions)];
  // With typing errors only what is not found without, and below the names that the API found.
  const isTolerant = pagesFound.length + actionsFound.length === 0;
  const sections: Section[] = [
    { id: "recent", entries: isEmpty ? recent : [] },
    // What was listed as recent isn't listed twice.
    { id: "pages", entries: isEmpty ? all.filter(({ id }) => !recent.some((one) => one.id === id)) : pagesFound },
    { id: "found", entries: places },
    { id: "actions", entries: actionsFound },
    { id: "meant", entries: [...done, ...(isTolerant ? closest([...all, ...actions], text) : [])] },
  ];
  return sections.filter(({ entries }) => entries.length > 0);
}

/** What a text with typing errors can mean, the closest first. */
function closest(entries: readonly Entry[], text: string): Entry[] {
  return entries
    .flatMap((entry) => {
      const edits = editsBetween(text, entry.label);
      return edits === null ? [] : [{ entry, edits }];
    })
    .sort((one, other) => one.edits - other.edits)
    .map(({ entry }) => entry);
}

function pageEntry(
  path: string,
  label: string,
  icon: Icon,
  go: (entry: { id: string; kind: string; label: string; hint: string; address: Target }) => void,
): Entry {
  const entry = { id: `page ${path}`, kind: "page", label, hint: "", address: { to: path } as Target };
  return { id: entry.id, label, hint: "", icon, run: () => go(entry) };
}

function useActions(): Entry[] {
  const { t, language: shown } = useTranslation();
  const { setColorScheme } = useMantineColorScheme();
  const isDark = useComputedColorScheme("light") === "dark";
  const { zone, setZone, density, setDensity } = usePreferences();
  const { mutate: leave } = useSignOut();
  const language: Language = shown === "zh" ? "en" : "zh";
  const otherZone = zone === "utc" ? "local" : "utc";
  const otherDensity = density === "compact" ? "comfortable" : "compact";
  const action = (id: string, label: string, icon: Icon, run: () => void) => ({ id, label, hint: "", icon, run });
  return [
    action(
      "language",
      t("jump.language", { name: LANGUAGES[language] }),
      IconLanguage,
      () => void setLanguage(language),
    ),
    action("scheme", t(isDark ? "jump.light" : "jump.dark"), isDark ? IconSun : IconMoon, () =>
      setColorScheme(isDark ? "light" : "dark"),
    ),
    action("zone", t("settings.zone_switch", { zone: zoneName(otherZone) }), IconClock, () => setZone(otherZone)),
    action("density", t(`jump.${otherDensity}`), IconBaselineDensityMedium, () => setDensity(otherDensity)),
    action("documentation", t("help.all"), IconHelp, () => window.open("/docs/", "_blank", "noreferrer")),
    action("sign_out", t("action.sign_out"), IconLogout, () => leave()),
  ];
}
