// The windows of one tier, column by column, never more than the server keeps.
import type { Column, Series } from './types';

export const COLUMNS = [
  'seconds', 'generated_tokens', 'prompt_tokens', 'running', 'waiting', 'kv_usage', 'first_token_p50', 'first_token_p95',
  'per_token_p50', 'per_token_p95', 'expert_calls', 'expert_busy_seconds', 'cache_hits', 'cache_late', 'cache_misses',
  'read_bytes', 'wait_seconds', 'entropy', 'cv', 'hottest_share', 'alarms',
] as const;
export type ColumnName = (typeof COLUMNS)[number];

const WINDOWS_MAX = 512;

export interface Windows {
  tier: string;
  window_ms: number;
  begin: number[];
  complete: boolean[];
  columns: Record<ColumnName, Column>;
}

export function noWindows(tier: string, window_ms: number): Windows {
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, []])) as unknown as Windows['columns'];
  return { tier, window_ms, begin: [], complete: [], columns };
}

/** Where to ask on: the first window that may still grow, or the end. */
export function askFrom(windows: Windows): number {
  const open = windows.complete.indexOf(false);
  if (open >= 0) return windows.begin[open] ?? 0;
  const last = windows.begin.at(-1);
  return last === undefined ? 0 : last + windows.window_ms;
}

/** The old windows before the first new one, then the new ones; the oldest beyond `max` are forgotten. */
export function merge(old: Windows, series: Series, max: number): Windows {
  if (series.tier !== old.tier || series.begin.length === 0) return old;
  const first = series.begin[0] ?? 0;
  let kept = old.begin.findIndex((begin) => begin >= first);
  if (kept < 0) kept = old.begin.length;
  const keep = Math.min(Math.max(1, max), WINDOWS_MAX);
  const join = <T>(before: T[], after: T[]) => before.slice(0, kept).concat(after).slice(-keep);
  const columns = Object.fromEntries(
    COLUMNS.map((name) => {
      const found = series[name];
      return [name, join(old.columns[name], Array.isArray(found) ? (found as Column) : series.begin.map(() => null))];
    }),
  ) as Windows['columns'];
  return {
    tier: old.tier, window_ms: old.window_ms,
    begin: join(old.begin, series.begin), complete: join(old.complete, series.complete), columns,
  };
}

/** a / b window by window; null where either is missing or b is 0. */
export function ratio(a: Column, b: Column): Column {
  return a.map((value, i) => {
    const divisor = b[i];
    return value === null || divisor === null || divisor === undefined || divisor === 0 ? null : value / divisor;
  });
}
