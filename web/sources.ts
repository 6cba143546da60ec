// What dist/index.html is made of, as one number. tests/lint/web_test.py computes the same without Node.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const TOP_FILES = [
  'index.html', 'one_file.ts', 'package-lock.json', 'package.json', 'sources.ts', 'tsconfig.json', 'vite.config.ts',
];

/** SHA-256, in hex, over the paths (in the order of their bytes) and the contents of all sources below `root`. */
export function sourcesHash(root: string): string {
  const below = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
  const hash = createHash('sha256');
  for (const path of [...TOP_FILES, ...below].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
    hash.update(`${path}\0${createHash('sha256').update(readFileSync(join(root, path))).digest('hex')}\n`);
  }
  return hash.digest('hex');
}
