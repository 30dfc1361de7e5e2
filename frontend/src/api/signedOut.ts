type Listener = () => void;
const listeners = new Set<Listener>();

/** Call a listener when the server says that the session has ended. */
export function onSignedOut(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function reportSignedOut(): void {
  for (const listener of listeners) listener();
}

/** Ask whether the session has ended, when something else than an answer of the API says so. */
export async function checkSession(): Promise<void> {
  try {
    const { status } = await fetch("/api/v1/me/", { credentials: "same-origin" });
    if (status === 401) reportSignedOut();
  } catch {
    // The server can't be reached: the page says so itself.
  }
}
