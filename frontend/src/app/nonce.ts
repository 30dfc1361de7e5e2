/** The nonce that lets libraries make style elements; the page's policy allows no others. */
export function nonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
}
