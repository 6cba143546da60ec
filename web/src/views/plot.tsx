import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clock } from '../lib/format';
import type { Column } from '../lib/types';
import { useSize, useTheme } from './sizes';

export interface Line {
  label: string;
  values: Column;
}

interface Props {
  title: string;
  lines: Line[];
  write: (value: number | null | undefined) => string;
  max?: number;
  begin: number[];
  complete: boolean[];
  index: number | null;
  fine: boolean;
  look: (at: number | null) => void;
}

const HEIGHT = 130;
export const LINES = [{ name: '--line1' }, { name: '--line2', dash: [5, 4] }];

/** A vertical line at the window that is looked at. */
function marker(index: () => number | null, colour: string): uPlot.Plugin {
  return {
    hooks: {
      draw: (plot) => {
        const i = index();
        const x = i === null ? undefined : plot.data[0][i];
        if (x === undefined) return;
        const at = Math.round(plot.valToPos(x, 'x', true));
        plot.ctx.save();
        plot.ctx.fillStyle = colour;
        plot.ctx.fillRect(at - devicePixelRatio / 2, plot.bbox.top, devicePixelRatio, plot.bbox.height);
        plot.ctx.restore();
      },
    },
  };
}

function options(props: Props, width: number, style: (name: string) => string, latest: () => Props,
  point: (i: number | null) => void): uPlot.Options {
  const grid = { stroke: style('--rule'), width: 1 };
  const axis = { stroke: style('--muted'), grid, ticks: { ...grid, size: 4 }, font: '11px system-ui, sans-serif' };
  return {
    width, height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: 'soli' }, drag: { x: false, y: false }, points: { size: 5 } },
    scales: { x: { time: true }, y: {
      range: (_, low, high) => [Math.min(0, low ?? 0), props.max ?? ((high ?? 0) > 0 ? (high as number) * 1.1 : 1)],
    } },
    axes: [
      { ...axis, space: 70, size: 24, values: (_, ticks) => ticks.map((t) => clock(t * 1000, latest().fine)) },
      { ...axis, space: 34, size: 58, values: (_, ticks) => ticks.map((t) => props.write(t)) },
    ],
    series: [{}, ...props.lines.map((line, i) => ({
      label: line.label, stroke: style(LINES[i]?.name ?? '--line1'), width: 1.5, spanGaps: false,
      ...(LINES[i]?.dash ? { dash: LINES[i].dash } : {}),
      // A value between two gaps is no line: it is seen as a point only.
      points: { size: 4, show: (plot: uPlot, side: number) => plot.data[side]?.some((value) => value === null) ?? false },
    }))],
    plugins: [marker(() => latest().index, style('--accent'))],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
}

/** One chart. Its heading tells the values at the pointer, at the window that is looked at, or of the latest one. */
export function Plot(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const { width } = useSize(box);
  const theme = useTheme(box);
  const [pointed, point] = useState<number | null>(null);
  const { begin, lines, index } = props;

  useEffect(() => {
    if (!box.current || width === 0) return;
    const computed = getComputedStyle(box.current);
    const style = (name: string) => computed.getPropertyValue(name).trim();
    const made = new uPlot(options(props, width, style, () => latest.current, point), [[]], box.current);
    made.over.addEventListener('click', () => {
      const i = made.cursor.idx;
      if (i !== null && i !== undefined) latest.current.look(latest.current.begin[i] ?? null);
    });
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [width, theme, lines.length]);

  useEffect(() => {
    plot.current?.setData([begin.map((ms) => ms / 1000), ...lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [begin, lines, index, width, theme]);

  const last = begin.length - 1;
  const whole = props.complete[last] === false && last > 0 ? last - 1 : last;
  const shown = pointed !== null && pointed <= last ? pointed : (index ?? whole);
  return (
    <figure class="panel plot">
      <figcaption>
        <b>{props.title}</b>
        {lines.map((line, i) => (
          <span key={line.label} class={`line${i + 1}`}>{line.label} <output>{props.write(line.values[shown])}</output></span>
        ))}
      </figcaption>
      <div ref={box} class="canvas" style={{ height: `${HEIGHT}px` }} aria-hidden="true" />
    </figure>
  );
}
