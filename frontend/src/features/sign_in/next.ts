const HOME = "/";
const SIGN_IN = "/sign-in";

/** Where to continue after signing in: a page of this console, or its first one. No link's `?next=` leads elsewhere. */
export function safeNext(next: string | undefined, origin: string): string {
  if (!next?.startsWith("/")) return HOME;
  let address: URL;
  try {
    address = new URL(next, origin);
  } catch {
    return HOME;
  }
  if (address.origin !== origin || address.pathname === SIGN_IN || address.pathname.startsWith("//")) return HOME;
  return address.pathname + address.search + address.hash;
}
