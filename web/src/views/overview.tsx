import { useMemo, useState } from 'preact/hooks';
import { epoch, state } from '../lib/model';
import { usePoll } from '../lib/poll';
import { askFrom, merge, noWindows, type Windows } from '../lib/series_ring';
import { useStore } from '../lib/store';
import type { Series, Tier } from '../lib/types';
import { Choice } from './choice';
import { Figures } from './figures';
import { HeatPanel } from './heat_panel';
import { Plots } from './plots';

/** How often a tier is asked for: often enough to see its open window grow. */
export const tierMs = (tier: Tier) => Math.min(10_000, Math.max(1000, tier.window_ms / 5));

const reach = (tier: Tier) => {
  const minutes = (tier.window_ms * tier.max_windows) / 60_000;
  return minutes < 90 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`;
};

/** The windows of the chosen tier, kept up to date. The others are not kept: they are one question away. */
function useWindows(tier: Tier | undefined): Windows {
  const start = useStore(epoch);
  const name = tier?.name ?? '';
  const empty = useMemo(() => noWindows(name, tier?.window_ms ?? 1000), [name, start]);
  const [kept, keep] = useState(empty);
  const windows = kept.tier === name && kept !== empty && kept.begin.length > 0 ? kept : empty;
  const [seen, see] = useState(start);
  if (seen !== start) {
    see(start);
    keep(empty);
  }
  usePoll<Series>(
    () => (tier ? `series?tier=${name}&since=${askFrom(windows)}` : null), tier ? tierMs(tier) : 1000,
    (series) => keep(merge(windows, series, tier?.max_windows ?? 0)), undefined, `${name} ${start}`,
  );
  return windows;
}

/** `at`: the begin of the window that is looked at; null: the latest. */
export function Overview() {
  const known = useStore(state);
  const [tier_name, setTier] = useState('1s');
  const [at, look] = useState<number | null>(null);
  const tier = known?.tiers.find((candidate) => candidate.name === tier_name) ?? known?.tiers[0];
  const windows = useWindows(tier);
  if (!known || !tier) return null;
  const found = at === null ? -1 : windows.begin.indexOf(at);
  // A window that has left the server is looked at no more.
  const index = found >= 0 ? found : windows.begin.length - 1;
  const live = found < 0;
  const options = known.tiers.map((each) => ({ value: each.name, label: reach(each) }));
  return (
    <>
      <div class="bar">
        <Choice label="Time shown" value={tier.name} options={options} choose={(name) => {
          setTier(name);
          look(null);
        }} />
        <span class="quiet">{tier.windows} windows of {tier.name}</span>
      </div>
      <Figures windows={windows} index={index} live={live} />
      {known.experts && <HeatPanel tier={tier} windows={windows} index={index} live={live} look={look} />}
      <Plots windows={windows} index={live ? null : index} look={look} />
    </>
  );
}
