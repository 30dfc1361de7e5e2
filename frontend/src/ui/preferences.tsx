import { createContext, useCallback, useContext, useLayoutEffect, useMemo, useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { locale } from "@/i18n";
import type { Zone } from "@/format/times";

/** How much room rows and numbers take: `data-density` of the page's root, which style sheets read. */
export type Density = "comfortable" | "compact";

interface Preferences {
  /** In which zone instants are shown. */
  zone: Zone;
  setZone: (zone: Zone) => void;
  density: Density;
  setDensity: (density: Density) => void;
  /** Whether charts have markers of events. */
  hasMarkers: boolean;
  setMarkers: (has: boolean) => void;
}

const STORED_ZONE = "qmq.zone";
const STORED_DENSITY = "qmq.density";
const STORED_MARKERS = "qmq.markers";
const Context = createContext<Preferences>({
  zone: "local",
  setZone: () => undefined,
  density: "comfortable",
  setDensity: () => undefined,
  hasMarkers: true,
  setMarkers: () => undefined,
});

/**
 * How the viewer wants to see things, kept on this machine; colours are kept by the component library, the language by
 * i18n.
 */
export function PreferencesProvider({ children }: { children: ReactNode }) {
  const [zone, keepZone] = useState<Zone>(() => (localStorage.getItem(STORED_ZONE) === "utc" ? "utc" : "local"));
  const [density, keepDensity] = useState<Density>(() =>
    localStorage.getItem(STORED_DENSITY) === "compact" ? "compact" : "comfortable",
  );
  const setZone = useCallback((next: Zone) => {
    localStorage.setItem(STORED_ZONE, next);
    keepZone(next);
  }, []);
  const setDensity = useCallback((next: Density) => {
    localStorage.setItem(STORED_DENSITY, next);
    keepDensity(next);
  }, []);
  useLayoutEffect(() => {
    document.documentElement.dataset.density = density;
  }, [density]);
  const [hasMarkers, keepMarkers] = useState(() => localStorage.getItem(STORED_MARKERS) !== "off");
  const setMarkers = useCallback((has: boolean) => {
    localStorage.setItem(STORED_MARKERS, has ? "on" : "off");
    keepMarkers(has);
  }, []);
  const value = useMemo(
    () => ({ zone, setZone, density, setDensity, hasMarkers, setMarkers }),
    [zone, setZone, density, setDensity, hasMarkers, setMarkers],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useZone(): Zone {
  return useContext(Context).zone;
}

export function usePreferences(): Preferences {
  return useContext(Context);
}

/** The language as Intl takes it. */
export function useLanguage(): string {
  const { language } = useTranslation();
  return locale(language);
}
