import { MantineProvider } from "@mantine/core";
import { useNotifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { onSignedOut } from "@/api/signedOut";
import { asProblem } from "@/api/problem";
import { nonce } from "@/app/nonce";
import { theme } from "@/app/theme";
import { TextsProvider } from "@/i18n/useTranslation";
import { Hints } from "@/ui/page/Hints";
import { PreferencesProvider } from "@/ui/preferences";
import { whenOpened } from "@/ui/dialog/whenOpened";

const TRIES_MAX = 2;

const NotificationList = whenOpened(async () => (await import("@/app/NotificationList")).NotificationList);

/** For tests too: a cache of its own each. */
export function makeClient(): QueryClient {
  const client = new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (tries, error) => tries < TRIES_MAX && asProblem(error).isTransient,
        refetchOnWindowFocus: true,
      },
      // A change is never sent twice by itself.
      mutations: { retry: false },
    },
  });
  return client;
}

export function Providers({ children, client }: { children: ReactNode; client?: QueryClient }) {
  const [queries] = useState(() => client ?? makeClient());
  // After a session ended elsewhere, `me` is requested again; its 401 leads to the sign-in page.
  useEffect(
    () =>
      onSignedOut(() => {
        if (queries.getQueryData(["me"]) !== undefined) void queries.resetQueries({ queryKey: ["me"] });
      }),
    [queries],
  );
  return (
    <TextsProvider>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={nonce}>
        <Notifications />
        <Hints />
        <PreferencesProvider>
          <QueryClientProvider client={queries}>{children}</QueryClientProvider>
        </PreferencesProvider>
      </MantineProvider>
    </TextsProvider>
  );
}

/** The list of notifications is loaded with the first one. */
function Notifications() {
  const { notifications } = useNotifications();
  return <NotificationList opened={notifications.length > 0} />;
}
