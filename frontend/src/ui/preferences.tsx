import { createContext, useCallback, useContext, useMemo, useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { locale } from "@/i18n";
import type { Zone } from "@/format/times";

interface Preferences {
  /** In which zone instants are shown. */
  zone: Zone;
  setZone: (zone: Zone) => void;
  /** Whether charts have markers of events. */
  hasMarkers: boolean;
  setMarkers: (has: boolean) => void;
}

const STORED = "qmq.zone";
const MARKERS = "qmq.markers";
const Context = createContext<Preferences>({
  zone: "local",
  setZone: () => undefined,
  hasMarkers: true,
  setMarkers: () => undefined,
});

/**
 * How the viewer wants to see things, kept on this machine; colours are kept by the component library, the language by
 * i18n.
 */
export function PreferencesProvider({ children }: { children: ReactNode }) {
  const [zone, keep] = useState<Zone>(() => (localStorage.getItem(STORED) === "utc" ? "utc" : "local"));
  const setZone = useCallback((next: Zone) => {
    localStorage.setItem(STORED, next);
    keep(next);
  }, []);
  const [hasMarkers, keepMarkers] = useState(() => localStorage.getItem(MARKERS) !== "off");
  const setMarkers = useCallback((has: boolean) => {
    localStorage.setItem(MARKERS, has ? "on" : "off");
    keepMarkers(has);
  }, []);
  const value = useMemo(() => ({ zone, setZone, hasMarkers, setMarkers }), [zone, setZone, hasMarkers, setMarkers]);
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
  const { i18n } = useTranslation();
  return locale(i18n.language);
}
