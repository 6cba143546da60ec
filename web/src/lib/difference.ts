// What two answers to one prompt differ in.
import type { Answer } from './completion';

/** Where the texts differ first, in UTF-16 units, never within a character; null: they are equal. */
export function firstDifference(a: string, b: string): number | null {
  if (a === b) return null;
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  const before = a.charCodeAt(at - 1);
  return before >= 0xd800 && before < 0xdc00 ? at - 1 : at;
}

/** Mean over layers and tokens, as long as the tokens are the same, of |chosen by both| / |chosen by either|. */
export function routingAgreement(a: Answer, b: Answer): { jaccard: number; n_tokens: number } | null {
  let sum = 0;
  let pairs = 0;
  let n_tokens = 0;
  for (const [i, one] of a.routing.entries()) {
    const other = b.routing[i];
    if (!other || other.token !== one.token) break;
    n_tokens += 1;
    for (const [row, experts] of one.experts.entries()) {
      const theirs = new Set(other.experts[row] ?? []);
      const both = experts.filter((expert) => theirs.has(expert)).length;
      const either = experts.length + theirs.size - both;
      if (either > 0) sum += both / either;
      if (either > 0) pairs += 1;
    }
  }
  return pairs === 0 ? null : { jaccard: sum / pairs, n_tokens };
}

/** Experts that a token called in a layer, in the mean. */
export function meanExperts(answer: Answer): number | null {
  let calls = 0;
  let layers = 0;
  for (const { experts } of answer.routing) {
    calls += experts.reduce((n, layer) => n + layer.length, 0);
    layers += experts.length;
  }
  return layers === 0 ? null : calls / layers;
}
