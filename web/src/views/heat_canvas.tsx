import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { table, ticks, type ColourMap, type Scale } from '../lib/colour';
import { DASH, percent, short, whole } from '../lib/format';
import { fairness, type Frame } from '../lib/heat_frames';
import { alarms, cell, state } from '../lib/model';
import { useStore } from '../lib/store';
import { cellAt, draw, geometry, highEnd, type Place } from './heat_draw';
import { useSize, useTheme } from './sizes';

function describe(frame: Frame, at: Place, hot: Place[]): string {
  const calls = frame.calls[at.row * frame.n_experts + at.expert] ?? 0;
  const fair = fairness(frame, at.row, at.expert);
  const share = fair === null ? DASH : percent(fair / frame.n_experts);
  const alarm = hot.some((place) => place.row === at.row && place.expert === at.expert) ? ', hot' : '';
  return `Layer ${frame.layers[at.row]}, expert ${at.expert}: ${whole(calls)} calls, ${share} of the layer, ` +
    `${short(fair)} × fair share${alarm}`;
}

function Legend({ scale, map, high }: { scale: Scale; map: ColourMap; high: number }) {
  const colours = table(map).filter((_, i) => i % 15 === 0).join(',');
  const [low, middle, top] = ticks(scale, high);
  const unit = scale === 'calls' ? '' : '×';
  return (
    <div class="legend" aria-hidden="true">
      <span>{scale === 'log' ? `1/${short(top)}` : short(low)}{unit}</span>
      <i style={{ background: `linear-gradient(90deg,${colours})` }}><u>{short(middle)}{unit}</u></i>
      <span>{short(top)}{unit}</span>
    </div>
  );
}

const MOVES: Record<string, [number, number]> = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  PageUp: [0, -16], PageDown: [0, 16], Home: [0, -1e6], End: [0, 1e6],
};

const clamp = (value: number, max: number) => Math.min(Math.max(0, value), max);

/** Layers down, experts across. A cell is looked at with the pointer or, with the arrow keys, by a cursor. */
export function HeatCanvas({ frame, scale, map }: { frame: Frame | null; scale: Scale; map: ColourMap }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, ratio } = useSize(box);
  const theme = useTheme(box);
  const chosen = useStore(cell);
  const open = useStore(alarms)?.open;
  const [hover, setHover] = useState<Place | null>(null);
  const [said, say] = useState('');
  // Before the first frame there is an empty map of the same size: nothing below it jumps.
  const experts = useStore(state)?.experts;
  const g = geometry(width, frame?.layers.length ?? experts?.layers.length ?? 0, frame?.n_experts ?? experts?.per_layer ?? 0);
  const high = useMemo(() => (frame ? highEnd(frame, scale) : 1), [frame, scale]);
  const rowOf = (layer: number) => frame?.layers.indexOf(layer) ?? -1;
  const hot = (open ?? []).map(({ layer, expert }) => ({ row: rowOf(layer), expert })).filter(({ row }) => row >= 0);
  const cursor = chosen && rowOf(chosen.layer) >= 0 ? { row: rowOf(chosen.layer), expert: chosen.expert } : null;
  const at = hover ?? cursor;

  useEffect(() => {
    const c = canvas.current?.getContext('2d');
    if (!c || !canvas.current || !frame || width === 0) return;
    canvas.current.width = Math.round(g.width * ratio);
    canvas.current.height = Math.round(g.height * ratio);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(c, g, frame, { scale, map, high, ...theme }, hot, at);
  });

  const go = (next: Place) => {
    if (!frame) return;
    cell.set({ layer: frame.layers[next.row] ?? 0, expert: next.expert });
    setHover(null);
    say(describe(frame, next, hot));
    const left = g.left + next.expert * g.cell_width;
    const view = box.current;
    if (view && (left < view.scrollLeft + g.left || left > view.scrollLeft + view.clientWidth - 2 * g.cell_width)) {
      view.scrollLeft = left - view.clientWidth / 2;
    }
  };
  const under = (event: PointerEvent) =>
    frame ? cellAt(g, frame, event.offsetX, event.offsetY) : null;

  return (
    <>
      <div class="heat" ref={box} tabIndex={0} role="application" aria-roledescription="heat map"
        aria-label="Calls of experts by layer. Arrow keys move from cell to cell."
        onKeyDown={(event) => {
          const move = MOVES[event.key];
          if (event.key === 'Escape') cell.set(null);
          if (!move || !frame || event.ctrlKey || event.altKey || event.metaKey) return;
          event.preventDefault();
          const from = cursor ?? { row: 0, expert: 0 };
          go(cursor === null ? from : {
            row: clamp(from.row + move[0], frame.layers.length - 1),
            expert: clamp(from.expert + move[1], frame.n_experts - 1),
          });
        }}>
        <canvas ref={canvas} style={{ width: `${g.width}px`, height: `${g.height}px` }}
          onPointerMove={(event) => setHover(under(event))} onPointerLeave={() => setHover(null)}
          onPointerDown={(event) => {
            const place = under(event);
            if (place) go(place);
          }} />
      </div>
      <div class="bar readout">
        <span class={frame && at ? 'cell' : 'quiet'} aria-hidden="true">
          {frame && at ? describe(frame, at, hot) : 'Point at a cell, or walk with the arrow keys.'}
        </span>
        <Legend scale={scale} map={map} high={high} />
      </div>
      <p class="unseen" aria-live="polite">{said}</p>
    </>
  );
}
