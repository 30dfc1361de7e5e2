import { queryOptions } from "@tanstack/react-query";
import { allauth, type Answer } from "@/api/session";

export interface Provider {
  id: string;
  name: string;
}

/** What comes of an attempt to sign in. */
export type Outcome =
  | { kind: "signed_in" }
  /** The password was right; a second factor is asked for. */
  | { kind: "code" }
  /** This browser is signed in already, perhaps as another user. */
  | { kind: "already" }
  /** Nothing is pending any more: the password was given too long ago. */
  | { kind: "start_over" }
  | { kind: "refused"; code: string; message: string };

export function outcomeOf({ status, flows, errors }: Answer): Outcome {
  if (status === 200) return { kind: "signed_in" };
  if (flows.some((flow) => flow.id === "mfa_authenticate" && flow.is_pending)) return { kind: "code" };
  const [error] = errors;
  if (error) return { kind: "refused", code: error.code, message: error.message };
  return { kind: "start_over" };
}

/** Who there is to sign in with; asking also sets the cookie that every change needs. */
export function configOptions() {
  return queryOptions({
    queryKey: ["sign-in", "config"],
    queryFn: async (): Promise<{ providers: readonly Provider[] }> => {
      const { data } = await allauth("GET", "config");
      const social = data.socialaccount as { providers?: readonly Provider[] } | undefined;
      return { providers: social?.providers ?? [] };
    },
    staleTime: Infinity,
  });
}

/** By name, or by address: no name has an "@". */
export async function signIn(login: string, password: string): Promise<Outcome> {
  const who = login.includes("@") ? { email: login } : { username: login };
  const answer = await allauth("POST", "auth/login", { ...who, password });
  return answer.status === 409 ? { kind: "already" } : outcomeOf(answer);
}

/** The code of an authenticator app, or a recovery code; apps show it with blanks. */
export async function giveCode(code: string): Promise<Outcome> {
  return outcomeOf(await allauth("POST", "auth/2fa/authenticate", { code: code.replace(/\s/g, "") }));
}

/** How far a sign-in got that began at the identity provider. */
export async function whereAmI(): Promise<Outcome> {
  return outcomeOf(await allauth("GET", "auth/session"));
}
