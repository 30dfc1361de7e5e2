/** Messages that were viewed, kept in the address: a link to the page shows them to others too. Pure. */

export interface Place {
  subject: string;
  brokerGroup: string;
  sequence: string;
}

export const RECENT_MAX = 8;

// Names hold neither slashes nor white space.
const BETWEEN = " ";

function textOf({ subject, brokerGroup, sequence }: Place): string {
  return `${subject}/${brokerGroup}/${sequence}`;
}

export function recentOf(text: string | undefined): Place[] {
  return (text ?? "").split(BETWEEN).flatMap((one) => {
    const [subject, brokerGroup, sequence, ...rest] = one.split("/");
    return subject && brokerGroup && sequence && rest.length === 0 ? [{ subject, brokerGroup, sequence }] : [];
  });
}

/** The parameter's text with a place in front; each place is there once, the oldest go. */
export function withRecent(text: string | undefined, place: Place): string {
  const others = recentOf(text)
    .map(textOf)
    .filter((one) => one !== textOf(place));
  return [textOf(place), ...others].slice(0, RECENT_MAX).join(BETWEEN);
}
