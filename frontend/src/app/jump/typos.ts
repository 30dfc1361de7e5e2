/**
 * Names that a text with typing errors can mean: the words of the text begin words of the name, with a few edits. The
 * API takes the same texts for names (`console/reports/typos.py`). Pure.
 */

const WORD_CHARS_MAX = 32;
const ONE_EDIT_FROM = 4;
const TWO_EDITS_FROM = 8;

function editsAllowed(word: string): number {
  if (word.length > WORD_CHARS_MAX || word.length < ONE_EDIT_FROM) return 0;
  return word.length >= TWO_EDITS_FROM ? 2 : 1;
}

/** The edits between a text and a name, whatever the case; null if a word of the text has too many. */
export function editsBetween(text: string, name: string): number | null {
  const lowered = name.toLowerCase();
  const begins = [...lowered.matchAll(/[\p{L}\p{N}]+/gu)].map(({ index }) => index);
  let total = 0;
  for (const word of text.trim().toLowerCase().split(/\s+/)) {
    if (lowered.includes(word)) continue;
    const allowed = editsAllowed(word);
    const edits = begins.map((begin) => editsOf(word, lowered.slice(begin, begin + word.length + allowed)));
    const best = Math.min(...edits, allowed + 1);
    if (best > allowed) return null;
    total += best;
  }
  return total;
}

/** Whether a word is another one, whatever the case, with one edit at most. Short words have to be right. */
export function isMeantBy(word: string, text: string): boolean {
  const edits = prefixEdits(text.toLowerCase(), word).at(-1) ?? Infinity;
  return edits <= Math.min(1, editsAllowed(word));
}

/** The edits between a word and the beginning of a name that is closest to it. */
function editsOf(word: string, name: string): number {
  return Math.min(...prefixEdits(word, name));
}

/**
 * The edits between a word and each beginning of a name, the empty one first: characters that are wrong, missing or too
 * many, or two that are swapped.
 */
function prefixEdits(word: string, name: string): number[] {
  let last: number[] = [];
  let before: number[] = [];
  let row = Array.from({ length: name.length + 1 }, (_, j) => j);
  for (let i = 1; i <= word.length; i++) {
    [last, before, row] = [before, row, [i]];
    for (let j = 1; j <= name.length; j++) {
      const at = (line: readonly number[], column: number) => line[column] ?? Infinity;
      const isSame = word[i - 1] === name[j - 1];
      const isSwapped = i > 1 && j > 1 && word[i - 1] === name[j - 2] && word[i - 2] === name[j - 1];
      row.push(
        Math.min(
          at(row, j - 1) + 1,
          at(before, j) + 1,
          at(before, j - 1) + (isSame ? 0 : 1),
          isSwapped ? at(last, j - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return row;
}
