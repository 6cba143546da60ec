// Numbers as people read them. Every function of a number takes null, for which it writes a dash.
import type { Policy } from './types';

export const DASH = '–';
type Maybe = number | null | undefined;

const missing = (value: Maybe): value is null | undefined => value === null || value === undefined || !isFinite(value);

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export function whole(value: Maybe): string {
  return missing(value) ? DASH : grouped.format(value).replaceAll(',', '\u202f');
}

/** Three figures or so: 1.24k, 0.031. */
export function short(value: Maybe): string {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  for (const [unit, sign] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']] as const) {
    if (size >= unit) return `${figures(value / (sign === 'k' ? 1e3 : unit))}${sign}`;
  }
  return figures(value);
}

function figures(inexact: number): string {
  const value = Number(inexact.toPrecision(9));
  const size = Math.abs(value);
  if (Number.isInteger(value)) return value.toFixed(0);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return value.toPrecision(2);
}

/** Below a percent with two figures, so that the ticks of an axis differ. */
export function percent(value: Maybe): string {
  if (missing(value)) return DASH;
  const hundredths = value * 100;
  const text = value > 0 && value < 0.01 ? hundredths.toPrecision(2) : hundredths.toFixed(value > 0 && value < 0.1 ? 1 : 0);
  return `${text}\u202f%`;
}

export function bytes(value: Maybe): string {
  if (missing(value)) return DASH;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let left = value;
  let unit = 0;
  while (Math.abs(left) >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${figures(left)} ${units[unit]}`;
}

/** A duration in seconds, in the unit that suits it. */
export function seconds(value: Maybe): string {
  if (missing(value)) return DASH;
  if (value === 0) return '0 s';
  if (value < 1e-3) return `${figures(value * 1e6)} µs`;
  if (value < 1) return `${figures(value * 1e3)} ms`;
  return value < 120 ? `${figures(value)} s` : span(value);
}

/** 3 d 4 h, 2 h 5 min, 12 min, 40 s */
export function span(value: Maybe): string {
  if (missing(value)) return DASH;
  const s = Math.floor(value);
  const [days, hours, minutes] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${s} s`;
}

/** The time of day at the person's place; `fine`: with seconds. */
export function clock(ms: Maybe, fine = true): string {
  if (missing(ms)) return DASH;
  const date = new Date(ms);
  const two = (n: number) => String(n).padStart(2, '0');
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return fine ? `${minutes}:${two(date.getSeconds())}` : minutes;
}

/** A policy in one line. The server writes null for one that is too large. */
export function policyText(policy: Policy | null): string {
  if (policy === null) return 'a policy too large to show';
  const keys = Object.keys(policy);
  return keys.length === 0 ? 'the model’s own' : keys.map((k) => `${k} = ${JSON.stringify(policy[k])}`).join(', ');
}
