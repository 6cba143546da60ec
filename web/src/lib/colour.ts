// Colours that people who see few of them can tell apart.

type Rgb = [number, number, number];

const hex = (text: string): Rgb[] =>
  text.split(' ').map((c) => [0, 2, 4].map((at) => parseInt(c.slice(at, at + 2), 16)) as Rgb);

// Both run from dark to light evenly, so they can be read without any colour. Eleven points each, a tenth apart.
const POINTS: Record<string, Rgb[]> = {
  viridis: hex('440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725'),
  cividis: hex('002051 0a326a 2b446e 4d566d 696970 7f7c75 948f78 ada476 caba6a ead156 fdea45'),
};
export const MAPS = Object.keys(POINTS);
export type ColourMap = string;

function mixed(points: Rgb[], at: number): string {
  const place = Math.min(1, Math.max(0, at)) * (points.length - 1);
  const low = Math.min(points.length - 2, Math.floor(place));
  const part = place - low;
  const a = points[low] ?? [0, 0, 0];
  const b = points[low + 1] ?? a;
  return `rgb(${a.map((value, i) => Math.round(value + ((b[i] ?? value) - value) * part)).join(',')})`;
}

const tables = new Map<string, string[]>();

/** 256 colours of a map, the lowest first. */
export function table(map: ColourMap): string[] {
  let found = tables.get(map);
  if (!found) {
    const points = POINTS[map] ?? (POINTS.cividis as Rgb[]);
    found = Array.from({ length: 256 }, (_, i) => mixed(points, i / 255));
    tables.set(map, found);
  }
  return found;
}

/** How a number becomes a place in the colour map. */
export type Scale = 'fair' | 'log' | 'calls';

export const SCALES: { name: Scale; label: string }[] = [
  { name: 'log', label: '× fair share, log' },
  { name: 'fair', label: '× fair share' },
  { name: 'calls', label: 'calls, log' },
];

/** From 0 to 1; `high` is the value at the upper end; with the logarithm of fair shares 1 / high is at the lower one. */
export function place(scale: Scale, fair: number, calls: number, high: number): number {
  if (scale === 'fair') return fair / high;
  if (scale === 'log') return fair <= 0 ? 0 : 0.5 + (0.5 * Math.log(fair)) / Math.log(high);
  return Math.log1p(calls) / Math.log1p(high);
}

/** Numbers at the lower end, the middle and the upper end of the legend. */
export function ticks(scale: Scale, high: number): [number, number, number] {
  if (scale === 'fair') return [0, high / 2, high];
  if (scale === 'log') return [1 / high, 1, high];
  return [0, Math.expm1(Math.log1p(high) / 2), high];
}

// Okabe and Ito's colours; experts that share one differ in the line below, and the number is always written.
const N_COLOURS = 8;
const N_LINES = 3;

export function expertClass(expert: number): string {
  return `c${expert % N_COLOURS} l${Math.floor(expert / N_COLOURS) % N_LINES}`;
}
