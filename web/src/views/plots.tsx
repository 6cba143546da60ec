import { useMemo } from 'preact/hooks';
import { bytes, percent, seconds, short } from '../lib/format';
import { ratio, type Windows } from '../lib/series_ring';
import type { Column } from '../lib/types';
import { Plot, type Line } from './plot';

interface Chart {
  title: string;
  lines: Line[];
  write: (value: number | null | undefined) => string;
  max?: number;  // of the axis, where it is known
}

const perSecond = (windows: Windows, column: Column) => ratio(column, windows.columns.seconds);

/** Colours are Okabe and Ito's; the second line of a chart is dashed, so that it is told apart without them. */
function charts(windows: Windows): Chart[] {
  const c = windows.columns;
  const lookups = c.cache_hits.map((hits, i) =>
    hits === null ? null : hits + (c.cache_late[i] ?? 0) + (c.cache_misses[i] ?? 0));
  const all: Chart[] = [
    { title: 'Tokens per second', write: short, lines: [
      { label: 'generated', values: perSecond(windows, c.generated_tokens) },
      { label: 'prompt', values: perSecond(windows, c.prompt_tokens) },
    ] },
    { title: 'Time to first token', write: seconds, lines: [
      { label: 'median', values: c.first_token_p50 }, { label: 'p95', values: c.first_token_p95 },
    ] },
    { title: 'Time per token', write: seconds, lines: [
      { label: 'median', values: c.per_token_p50 }, { label: 'p95', values: c.per_token_p95 },
    ] },
    { title: 'Requests', write: short, lines: [
      { label: 'running', values: c.running }, { label: 'waiting', values: c.waiting },
    ] },
    { title: 'Entropy of experts', write: short, max: 1, lines: [{ label: 'mean of layers', values: c.entropy }] },
    { title: 'Imbalance (CV)', write: short, lines: [{ label: 'mean of layers', values: c.cv }] },
    { title: 'Hottest share', write: percent, lines: [{ label: 'of any layer', values: c.hottest_share }] },
    { title: 'Keys and values in use', write: percent, lines: [{ label: 'share', values: c.kv_usage }] },
  ];
  if (lookups.some((n) => n !== null)) {
    all.push(
      { title: 'Cache of experts', write: percent, max: 1, lines: [
        { label: 'hits', values: ratio(c.cache_hits, lookups) }, { label: 'late', values: ratio(c.cache_late, lookups) },
      ] },
      { title: 'Read per second', write: bytes, lines: [{ label: 'bytes', values: perSecond(windows, c.read_bytes) }] },
      { title: 'Waiting for the disk', write: percent, lines: [
        { label: 'share of time', values: perSecond(windows, c.wait_seconds) },
      ] },
    );
  }
  return all;
}

/** `index`: the window that is looked at; null: the latest. Choosing a point in a chart looks there. */
export function Plots({ windows, index, look }: {
  windows: Windows; index: number | null; look: (at: number | null) => void;
}) {
  const all = useMemo(() => charts(windows), [windows]);
  return (
    <section class="plots" aria-label="Over time">
      {all.map((chart) => <Plot key={chart.title} {...chart} begin={windows.begin} complete={windows.complete}
        index={index} fine={windows.window_ms < 60_000} look={look} />)}
    </section>
  );
}
