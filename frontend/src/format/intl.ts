/** Formatters of the browser are dear to make and cheap to use: each is made once, however many cells need it. */

function remembered<Options, Formatter>(make: (language: string, options: Options) => Formatter) {
  const made = new Map<string, Formatter>();
  return (language: string, options: Options): Formatter => {
    const key = language + JSON.stringify(options);
    let formatter = made.get(key);
    if (formatter === undefined) {
      formatter = make(language, options);
      made.set(key, formatter);
    }
    return formatter;
  };
}

export const numberFormat = remembered(
  (language, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(language, options),
);
export const listFormat = remembered(
  (language, options: Intl.ListFormatOptions) => new Intl.ListFormat(language, options),
);
export const relativeFormat = remembered(
  (language, options: Intl.RelativeTimeFormatOptions) => new Intl.RelativeTimeFormat(language, options),
);
