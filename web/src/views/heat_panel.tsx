import { useEffect, useRef, useState } from 'preact/hooks';
import { MAPS, SCALES, type ColourMap, type Scale } from '../lib/colour';
import { span } from '../lib/format';
import { FrameCache, frameOf, type Frame } from '../lib/heat_frames';
import { epoch } from '../lib/model';
import { usePoll } from '../lib/poll';
import type { Windows } from '../lib/series_ring';
import { useStore } from '../lib/store';
import type { Heat, Tier } from '../lib/types';
import { Choice } from './choice';
import { HeatCanvas } from './heat_canvas';
import { Scrubber } from './scrubber';

interface Props {
  tier: Tier;
  windows: Windows;
  index: number;
  live: boolean;
  look: (at: number | null) => void;
}

const EXPOSURES = [1, 10, 60];
const SCRUB_MS = 250;

/** The frame of the window that is looked at, over `exposure` windows up to it. Those that cannot change are kept. */
function useFrame({ tier, windows, index, live }: Props, exposure: number): Frame | null {
  const [frame, show] = useState<Frame | null>(null);
  const cache = useRef(new FrameCache());
  const start = useStore(epoch);
  const begin = windows.begin[index];
  // The open window comes on top while live: alone it would have counted next to nothing.
  const first = windows.begin[Math.max(0, index - exposure + (live ? 0 : 1))];
  const query = begin === undefined ? null : `heat?tier=${tier.name}&from=${first}&to=${begin + tier.window_ms}`;
  const settled = !live && windows.complete[index] === true;
  const found = settled && query ? cache.current.get(query) : undefined;
  useEffect(() => {
    cache.current.clear();
    show(null);
  }, [start]);
  const wanted = useRef(query);
  wanted.current = query;
  usePoll<Heat>(
    () => (found ? null : wanted.current), live ? Math.max(1000, tier.window_ms / 5) : settled ? SCRUB_MS * 40 : 1000,
    (heat) => {
      const next = frameOf(heat);
      if (settled && query && heat.to === (begin ?? 0) + tier.window_ms) cache.current.put(query, next);
      show(next);
    },
    // While live the question changes by itself each time that it is asked; when scrubbing each one is asked at once.
    undefined, live ? `live ${tier.name} ${exposure} ${query === null}` : query,
  );
  return found ?? frame;
}

export function HeatPanel(props: Props) {
  const { tier, windows, index, live, look } = props;
  const [scale, setScale] = useState<Scale>('log');
  const [map, setMap] = useState<ColourMap>('cividis');
  const [exposure, setExposure] = useState(10);
  const frame = useFrame(props, exposure);
  const exposures = EXPOSURES.filter((n) => n === 1 || n <= tier.max_windows).map((n) => ({
    value: String(n), label: span((n * tier.window_ms) / 1000),
  }));
  return (
    <section class="panel" aria-labelledby="heat-title">
      <div class="bar">
        <h2 id="heat-title">Experts by layer</h2>
        <Choice label="Sum over" value={String(exposure)} options={exposures} choose={(n) => setExposure(Number(n))} />
        <Choice label="Scale" value={scale} choose={setScale}
          options={SCALES.map(({ name, label }) => ({ value: name, label }))} />
        <Choice label="Colours" value={map} choose={setMap} options={MAPS.map((name) => ({ value: name, label: name }))} />
      </div>
      <HeatCanvas frame={frame} scale={scale} map={map} />
      <Scrubber windows={windows} index={index} live={live} look={look} />
    </section>
  );
}
