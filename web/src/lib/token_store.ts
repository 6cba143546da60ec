// The tokens of one request, with their experts in flat arrays: what is asked for again and again while it runs is
// small, and a long prompt through many layers stays small too.
import type { RequestTokens, RoutedToken } from './types';

const CHOICES_MAX = 1 << 23;  // experts that are kept, of all tokens and layers; 48 MiB

export class TokenStore {
  readonly tokens: { position: number; token: number; text: string; generated: boolean }[] = [];
  private experts: (Uint16Array | null)[] = [];
  private weights: (Float32Array | null)[] = [];
  private starts: (Uint16Array | null)[] = [];
  private kept = 0;
  forgotten = 0;  // tokens whose experts found no room here

  constructor(readonly id: string, readonly layers: number[]) {}

  /** The position to ask on from: the last token may come again, with its experts. */
  since(): number {
    const last = this.tokens.length - 1;
    return last < 0 ? 0 : (this.tokens[last]?.position ?? 0) + (this.experts[last] || this.forgotten > 0 ? 1 : 0);
  }

  add(answer: RequestTokens): void {
    for (const token of answer.tokens) {
      const last = this.tokens.at(-1);
      if (last && token.position < last.position) continue;
      if (last && token.position === last.position) this.pop();
      this.push(token);
    }
  }

  private pop(): void {
    this.tokens.pop();
    this.kept -= this.experts.pop()?.length ?? 0;
    this.weights.pop();
    this.starts.pop();
  }

  private push({ position, token, text, generated, experts, weights }: RoutedToken): void {
    const n = experts?.reduce((sum, layer) => sum + layer.length, 0) ?? 0;
    const room = this.kept + n <= CHOICES_MAX;
    if (!room) this.forgotten += 1;
    this.tokens.push({ position, token, text, generated });
    const known = experts !== null && weights !== null && room;
    this.experts.push(known ? Uint16Array.from(experts.flat()) : null);
    this.weights.push(known ? Float32Array.from(weights.flat()) : null);
    this.starts.push(known ? startsOf(experts) : null);
    this.kept += known ? n : 0;
  }

  /** The experts of a token in a layer (`row` of `layers`) with their weights, the highest score first; null: none. */
  choice(index: number, row: number): { expert: number; weight: number }[] | null {
    const [experts, weights, starts] = [this.experts[index], this.weights[index], this.starts[index]];
    if (!experts || !weights || !starts) return null;
    const first = starts[row] ?? 0;
    return Array.from(experts.subarray(first, starts[row + 1] ?? first), (expert, i) =>
      ({ expert, weight: weights[first + i] ?? 0 }));
  }
}

function startsOf(experts: number[][]): Uint16Array {
  const starts = new Uint16Array(experts.length + 1);
  experts.forEach((layer, row) => {
    starts[row + 1] = (starts[row] ?? 0) + layer.length;
  });
  return starts;
}

/** A token's text as it can be seen: characters without a shape of their own are written as symbols. */
export function visible(text: string): string {
  if (text === '') return '·';
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.charCodeAt(0);
    if (c === '\n') return '↵';
    if (c === '\t') return '→';
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `⟨${code.toString(16)}⟩`;
  });
}
