import { bytes, DASH, percent, seconds, short } from '../lib/format';
import { state } from '../lib/model';
import type { ColumnName, Windows } from '../lib/series_ring';
import { useStore } from '../lib/store';

/** Of the last complete window where the latest is looked at: an open one has counted too little to say. */
function steady(windows: Windows, index: number, live: boolean): number {
  return live && windows.complete[index] === false && index > 0 ? index - 1 : index;
}

/** The latest window up to `index` in which something was measured. */
function latest(windows: Windows, name: ColumnName, index: number): number | null {
  for (let i = index; i >= 0; i -= 1) {
    const value = windows.columns[name][i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

function Figure({ label, value, more }: { label: string; value: string; more?: string }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>{value}{more && <small>{more}</small>}</dd>
    </div>
  );
}

/** The numbers of one window. Those that only some windows have (latencies) are the latest there are, while live. */
export function Figures({ windows, index, live }: { windows: Windows; index: number; live: boolean }) {
  const known = useStore(state);
  const i = steady(windows, index, live);
  const of = (name: ColumnName) => windows.columns[name][i] ?? null;
  const late = (name: ColumnName) => (live ? latest(windows, name, i) : of(name));
  const time = of('seconds');
  const per_second = (value: number | null) => (value === null || !time ? null : value / time);
  const hits = of('cache_hits');
  const lookups = hits === null ? null : hits + (of('cache_late') ?? 0) + (of('cache_misses') ?? 0);
  const read = per_second(of('read_bytes'));
  const engine = known?.engine;
  return (
    <dl class="figures" aria-label={live ? 'Figures of now' : 'Figures of the chosen window'}>
      <Figure label="Throughput" value={`${short(per_second(of('generated_tokens')))}`} more="tokens/s" />
      <Figure label="First token" value={seconds(late('first_token_p50'))} more={`p95 ${seconds(late('first_token_p95'))}`} />
      <Figure label="Per token" value={seconds(late('per_token_p50'))} more={`p95 ${seconds(late('per_token_p95'))}`} />
      <Figure label="Running" value={short(live && engine ? engine.running : of('running'))}
        more={engine ? `of ${engine.max_running}` : ''} />
      <Figure label="Waiting" value={short(live && engine ? engine.waiting : of('waiting'))} />
      <Figure label="Keys, values" value={percent(of('kv_usage'))} more="in use" />
      <Figure label="Cache hits" value={lookups ? percent((hits ?? 0) / lookups) : DASH}
        more={lookups === null ? 'all in memory' : `${bytes(read)}/s read`} />
      <Figure label="Entropy" value={short(late('entropy'))} more="1: even" />
      <Figure label="Imbalance" value={short(late('cv'))} more="CV, 0: even" />
      <Figure label="Hottest share" value={percent(late('hottest_share'))} more={known?.experts ?
        `fair ${percent(1 / known.experts.per_layer)}` : ''} />
    </dl>
  );
}
