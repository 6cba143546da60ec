// Policies as people write them: a JSON object, or lines of TOML as in docs/steering.md. Not all of TOML: keys,
// numbers, strings, lists, inline tables and [[layers]]; anything else is an error with its line.
import type { Policy } from './types';

export class PolicyError extends Error {}

/** Reads one value at the beginning of a line's rest; `at` moves behind it. */
class Values {
  at = 0;
  constructor(private text: string, private line: number) {}

  fail(what: string): never {
    throw new PolicyError(`line ${this.line}: ${what}`);
  }

  skip(): void {
    while (/[ \t]/.test(this.text[this.at] ?? '')) this.at += 1;
  }

  end(): void {
    this.skip();
    const rest = this.text.slice(this.at);
    if (rest !== '' && !rest.startsWith('#')) this.fail(`“${rest}” stands behind the value`);
  }

  take(sign: string): boolean {
    this.skip();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  matched(pattern: RegExp): string | null {
    this.skip();
    const found = pattern.exec(this.text.slice(this.at));
    if (!found) return null;
    this.at += found[0].length;
    return found[0];
  }

  key(): string {
    const quoted = this.matched(/^"[^"\\]*"/);
    return quoted !== null ? quoted.slice(1, -1) : (this.matched(/^[A-Za-z0-9_-]+/) ?? this.fail('a key is missing'));
  }

  value(depth = 0): unknown {
    if (depth > 16) this.fail('lists are nested too deep');
    if (this.take('[')) return this.list(depth);
    if (this.take('{')) return this.table(depth);
    const text = this.matched(/^("([^"\\]|\\.)*"|'[^']*')/);
    if (text !== null) return text.startsWith("'") ? text.slice(1, -1) : this.string(text);
    const word = this.matched(/^[^\s,\]}#]+/) ?? this.fail('a value is missing');
    if (word === 'true' || word === 'false') return word === 'true';
    if (!/^[+-]?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(word)) {
      this.fail(`“${word}” is no number; texts stand in quotation marks`);
    }
    return Number(word.replaceAll('_', ''));
  }

  private string(text: string): string {
    try {
      return JSON.parse(text) as string;
    } catch {
      return this.fail(`${text} is no text`);
    }
  }

  private list(depth: number): unknown[] {
    const found: unknown[] = [];
    while (!this.take(']')) {
      found.push(this.value(depth + 1));
      if (!this.take(',') && this.text[this.at] !== ']') this.fail('a list wants “,” or “]”');
    }
    return found;
  }

  private table(depth: number): Policy {
    const found: Policy = Object.create(null) as Policy;
    while (!this.take('}')) {
      const key = this.key();
      if (!this.take('=')) this.fail(`“=” is missing behind ${key}`);
      found[key] = this.value(depth + 1);
      if (!this.take(',') && this.text[this.at] !== '}') this.fail('a table wants “,” or “}”');
    }
    return found;
  }
}

function readToml(text: string): Policy {
  const all: Policy = Object.create(null) as Policy;
  let into = all;
  text.split('\n').forEach((raw, i) => {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) return;
    if (/^\[\[\s*layers\s*\]\]\s*(#.*)?$/.test(line)) {
      into = Object.create(null) as Policy;
      (all.layers as Policy[] | undefined)?.push(into) ?? (all.layers = [into]);
      return;
    }
    if (line.startsWith('[')) throw new PolicyError(`line ${i + 1}: the only table is [[layers]]`);
    const values = new Values(line, i + 1);
    const key = values.key();
    if (!values.take('=')) values.fail(`“=” is missing behind ${key}`);
    if (key in into) values.fail(`${key} stands there twice`);
    into[key] = values.value();
    values.end();
  });
  return all;
}

/** The policy that `text` says; throws PolicyError with the line where it says none. */
export function readPolicy(text: string): Policy {
  if (!text.trim().startsWith('{')) return readToml(text);
  try {
    return JSON.parse(text) as Policy;
  } catch (error) {
    throw new PolicyError((error as Error).message);
  }
}
