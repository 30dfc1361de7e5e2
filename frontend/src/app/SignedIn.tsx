import { Center, Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Navigate, useRouterState } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { meOptions } from "@/api/me";
import { asProblem } from "@/api/problem";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

const ACCOUNT = "/account";
const SIGN_IN = "/sign-in";

/** Pages for signed-in users; others sign in and come back. Users who lack a demanded second factor set it up first. */
export function SignedIn({ children }: { children: ReactNode }) {
  const { t } = useTranslation();
  const { data: me, error, refetch } = useQuery({ ...meOptions(), retry: false });
  const location = useRouterState({ select: (state) => state.location });
  if (error && asProblem(error).status === 401) {
    // While the sign-in page loads, this page is still shown, at the new address already: going there again would never
    // end.
    if (location.pathname === SIGN_IN) return null;
    return <Navigate to={SIGN_IN} search={{ next: location.href }} replace />;
  }
  if (error) return <ProblemAlert error={error} onRetry={() => void refetch()} />;
  if (!me) {
    return (
      <Center h="100dvh">
        <Loader aria-label={t("state.loading")} />
      </Center>
    );
  }
  if (me.lacks_second_factor && location.pathname !== ACCOUNT) return <Navigate to={ACCOUNT} replace />;
  return children;
}
