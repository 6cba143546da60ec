import { useEffect, useRef } from 'preact/hooks';
import { clock, short, whole } from '../lib/format';
import type { Windows } from '../lib/series_ring';
import { useSize, useTheme } from './sizes';

interface Props {
  windows: Windows;
  index: number;
  live: boolean;
  look: (at: number | null) => void;
}

const HEIGHT = 36;
const INSET = 6;  // half the slider's thumb, so that the bars lie above where it stops

/** Calls of each window as bars, to see where to look, and a slider below them. At its right end it is live. */
export function Scrubber({ windows, index, live, look }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, ratio } = useSize(box);
  const theme = useTheme(box);
  const calls = windows.columns.expert_calls;
  const last = windows.begin.length - 1;

  useEffect(() => {
    const c = canvas.current?.getContext('2d');
    if (!c || !canvas.current || width === 0) return;
    canvas.current.width = Math.round(width * ratio);
    canvas.current.height = Math.round(HEIGHT * ratio);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, HEIGHT);
    const most = Math.max(1, ...calls.map((n) => n ?? 0));
    const apart = last > 0 ? (width - 2 * INSET) / last : 0;
    calls.forEach((n, i) => {
      const height = Math.max(1, ((n ?? 0) / most) * (HEIGHT - 6));
      c.fillStyle = i === index ? theme.accent : theme.muted;
      c.globalAlpha = i === index ? 1 : 0.55;
      c.fillRect(INSET + i * apart - Math.max(1, apart * 0.4), HEIGHT - height, Math.max(2, apart * 0.8), height);
      if ((windows.columns.alarms[i] ?? 0) > 0) {
        c.globalAlpha = 1;
        c.fillStyle = '#e07800';
        c.fillRect(INSET + i * apart - 1, 0, 3, 4);
      }
    });
    c.globalAlpha = 1;
  });

  const begin = windows.begin[index];
  const fine = windows.window_ms < 60_000;
  const when = begin === undefined ? 'nothing yet' : `${clock(begin, fine)} to ${clock(begin + windows.window_ms, fine)}`;
  const said = `${live ? 'live, ' : ''}${when}, ${whole(calls[index])} calls`;
  return (
    <div class="scrub">
      <div class="strip" ref={box} aria-hidden="true">
        <canvas ref={canvas} style={{ width: '100%', height: `${HEIGHT}px` }} />
      </div>
      <input type="range" min={0} max={Math.max(0, last)} value={Math.max(0, index)} step={1}
        aria-label="Window that is shown" aria-valuetext={said}
        onInput={(event) => {
          const to = Number(event.currentTarget.value);
          look(to >= last ? null : (windows.begin[to] ?? null));
        }} />
      <div class="bar">
        <button type="button" aria-pressed={live} class={live ? 'on' : ''}
          onClick={() => look(live ? (windows.begin[index] ?? null) : null)}>
          {live ? 'Live' : 'Go live'}
        </button>
        <span>{when}</span>
        <span class="quiet">{short(calls[index])} calls{live ? '' : ', stopped here'}</span>
      </div>
    </div>
  );
}
