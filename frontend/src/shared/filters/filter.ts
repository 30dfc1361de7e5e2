/** Characters of a filter, as many as the API takes. */
export const FILTER_CHARS_MAX = 4_000;

const ONE_PROPERTY = /^[^\s=!<>()[\]{}"'&|]+=[^\s=()[\]{}"'&|<>]+$/;

/** A filter that is a single `name=value`; "" for any other. Pure. */
export function oneProperty(filter: string): string {
  const text = filter.trim();
  return ONE_PROPERTY.test(text) ? text : "";
}
