import { useMemo, useState } from 'preact/hooks';
import { percent, seconds, short, span, whole } from '../lib/format';
import { cell, link, state } from '../lib/model';
import { usePoll } from '../lib/poll';
import { useStore } from '../lib/store';
import type { Experts } from '../lib/types';
import { Choice } from './choice';

const EXPERTS_MS = 2000;
const PAGE = 50;

interface Row {
  layer: number;
  expert: number;
  calls: number;
  share: number | null;
  fair: number | null;
  recent: number | null;
  heat: number;
  call: number | null;
  busy: number;
  hot: boolean;
}

type Key = Exclude<keyof Row, 'hot'>;

const COLUMNS: { key: Key; label: string; title: string; write: (row: Row) => string }[] = [
  { key: 'layer', label: 'Layer', title: 'layer', write: (r) => String(r.layer) },
  { key: 'expert', label: 'Expert', title: 'expert', write: (r) => String(r.expert) },
  { key: 'calls', label: 'Calls', title: 'tokens routed to it since the start', write: (r) => whole(r.calls) },
  { key: 'share', label: 'Share', title: 'of its layer’s calls since the start', write: (r) => percent(r.share) },
  { key: 'recent', label: 'Share now', title: 'of its layer’s calls of late', write: (r) => percent(r.recent) },
  { key: 'fair', label: '× fair', title: 'share of late, times the fair share', write: (r) => short(r.fair) },
  { key: 'heat', label: 'Heat', title: 'calls of late, the older the less', write: (r) => short(r.heat) },
  { key: 'call', label: 'Per call', title: 'time of threads for each call of late', write: (r) => seconds(r.call) },
  { key: 'busy', label: 'Busy', title: 'time of threads since the start', write: (r) => seconds(r.busy) },
];

function rowsOf(experts: Experts): Row[] {
  return experts.layers.flatMap((layer) => {
    const hot = new Set(layer.hot);
    return layer.calls.map((calls, expert): Row => {
      const recent = layer.decayed_share[expert] ?? null;
      return {
        layer: layer.layer, expert, calls, share: layer.share[expert] ?? null, recent,
        fair: recent === null ? null : recent * layer.calls.length, heat: layer.heat[expert] ?? 0,
        call: layer.call_seconds[expert] ?? null, busy: layer.busy_seconds[expert] ?? 0, hot: hot.has(expert),
      };
    });
  });
}

/** Missing values come last, whichever way the others are sorted. */
function sorted(rows: Row[], key: Key, down: boolean): Row[] {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[key], b[key]];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    return sign * (x - y) || a.layer - b.layer || a.expert - b.expert;
  });
}

function Head({ by, down, sort }: { by: Key; down: boolean; sort: (key: Key) => void }) {
  return (
    <thead>
      <tr>
        {COLUMNS.map(({ key, label, title }) => (
          <th key={key} scope="col" aria-sort={key !== by ? 'none' : down ? 'descending' : 'ascending'}>
            <button type="button" title={title} onClick={() => sort(key)}>
              <i aria-hidden="true">{key !== by ? '' : down ? '▾ ' : '▴ '}</i>{label}
            </button>
          </th>
        ))}
        <th scope="col"><span class="unseen">Alarm</span></th>
      </tr>
    </thead>
  );
}

/** Every expert of every layer, sorted by any figure. */
export function ExpertsView() {
  const known = useStore(state);
  const [experts, setExperts] = useState<Experts | null>(null);
  const [by, setBy] = useState<Key>('heat');
  const [down, setDown] = useState(true);
  const [layer, setLayer] = useState('all');
  const [page, setPage] = useState(0);
  usePoll<Experts>(known?.experts ? 'experts' : null, EXPERTS_MS, setExperts, undefined, known?.experts !== null);
  const rows = useMemo(() => {
    const all = experts ? rowsOf(experts) : [];
    return sorted(layer === 'all' ? all : all.filter((row) => row.layer === Number(layer)), by, down);
  }, [experts, layer, by, down]);
  if (!known?.experts) return <p class="quiet">This model is dense: it has no experts.</p>;
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const shown = Math.min(page, pages - 1);
  const layers = [{ value: 'all', label: 'all' }, ...known.experts.layers.map((n) => ({ value: String(n), label: String(n) }))];
  return (
    <section class="panel" aria-labelledby="experts-title">
      <div class="bar">
        <h2 id="experts-title">Experts</h2>
        <Choice label="Layer" value={layer} options={layers} choose={(name) => {
          setLayer(name);
          setPage(0);
        }} />
        <span class="row">
          <button type="button" disabled={shown === 0} onClick={() => setPage(shown - 1)}>Previous</button>
          <span>page {shown + 1} of {pages}</span>
          <button type="button" disabled={shown + 1 >= pages} onClick={() => setPage(shown + 1)}>Next</button>
        </span>
        <span class="quiet">“Now” and heat halve in {span(known.half_life_seconds)}</span>
      </div>
      <div class="wide" tabIndex={0} role="region" aria-label="Table of experts">
        <table class="numbers">
          <Head by={by} down={down} sort={(key) => {
            setDown(key === by ? !down : key !== 'layer' && key !== 'expert');
            setBy(key);
            setPage(0);
          }} />
          <tbody>
            {rows.slice(shown * PAGE, (shown + 1) * PAGE).map((row) => (
              <tr key={`${row.layer} ${row.expert}`} class={row.hot ? 'hot' : ''}>
                {COLUMNS.map(({ key, write }) => <td key={key}>{write(row)}</td>)}
                <td>
                  <a href={link('overview')} onClick={() => cell.set({ layer: row.layer, expert: row.expert })}
                    aria-label={`Layer ${row.layer}, expert ${row.expert} on the heat map`}>{row.hot ? '▲ hot' : 'map'}</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
