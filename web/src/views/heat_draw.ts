// Where things are on the heat map, and how they are drawn. In CSS pixels; the canvas is scaled by the device's ratio.
import { place, table, type ColourMap, type Scale } from '../lib/colour';
import { fairness, type Frame } from '../lib/heat_frames';

export interface Place {
  row: number;
  expert: number;
}

export interface Geometry {
  width: number;
  height: number;
  left: number;
  top: number;
  cell_width: number;
  cell_height: number;
  right: number;  // of the cells; evenness is drawn beyond it where `bars` is not 0
  bars: number;
}

const LEFT = 34;
const TOP = 18;
const CELL_WIDTH_MIN = 3;
const FONT = '11px system-ui, sans-serif';

/** `width`: what there is; the map is wider where a cell would be too narrow to be seen, and is scrolled then. */
export function geometry(width: number, n_layers: number, n_experts: number): Geometry {
  const bars = width >= 560 ? 64 : 0;
  const cell_width = Math.max(CELL_WIDTH_MIN, (width - LEFT - bars - 2) / Math.max(1, n_experts));
  const cell_height = Math.min(36, Math.max(8, Math.round(400 / Math.max(1, n_layers))));
  const right = LEFT + cell_width * n_experts;
  return {
    width: Math.max(width, right + bars + 2), height: TOP + cell_height * n_layers + 2,
    left: LEFT, top: TOP, cell_width, cell_height, right, bars,
  };
}

export function cellAt(g: Geometry, frame: Frame, x: number, y: number): Place | null {
  const expert = Math.floor((x - g.left) / g.cell_width);
  const row = Math.floor((y - g.top) / g.cell_height);
  const inside = expert >= 0 && expert < frame.n_experts && row >= 0 && row < frame.layers.length;
  return inside ? { row, expert } : null;
}

/** The value at the upper end of the scale: round, and not below what a quiet map needs to look quiet. */
export function highEnd(frame: Frame, scale: Scale): number {
  let high = 0;
  for (let row = 0; row < frame.layers.length; row += 1) {
    for (let expert = 0; expert < frame.n_experts; expert += 1) {
      const value = scale === 'calls' ? frame.calls[row * frame.n_experts + expert] : fairness(frame, row, expert);
      high = Math.max(high, value ?? 0);
    }
  }
  if (scale === 'calls') return Math.max(1, high);
  return scale === 'fair' ? Math.max(2, Math.ceil(high)) : 2 ** Math.min(6, Math.max(2, Math.ceil(Math.log2(high || 1))));
}

function step(spacing: number, wanted: number): number {
  let n = 1;
  while (n * spacing < wanted) n *= 2;
  return n;
}

export interface Look {
  scale: Scale;
  map: ColourMap;
  high: number;
  text: string;
  muted: string;
  empty: string;
  accent: string;
}

function labels(c: CanvasRenderingContext2D, g: Geometry, frame: Frame, look: Look): void {
  c.font = FONT;
  c.fillStyle = look.muted;
  c.textBaseline = 'middle';
  c.textAlign = 'right';
  const rows = step(g.cell_height, 13);
  frame.layers.forEach((layer, row) => {
    if (row % rows === 0) c.fillText(String(layer), g.left - 6, g.top + (row + 0.5) * g.cell_height);
  });
  c.textAlign = 'center';
  const columns = step(g.cell_width, 30);
  for (let e = 0; e < frame.n_experts; e += columns) c.fillText(String(e), g.left + (e + 0.5) * g.cell_width, g.top / 2);
  if (g.bars > 0) c.fillText('entropy', g.right + g.bars / 2 + 4, g.top / 2);
}

function cells(c: CanvasRenderingContext2D, g: Geometry, frame: Frame, look: Look): void {
  const colours = table(look.map);
  const gap = g.cell_width >= 6 && g.cell_height >= 8 ? 1 : 0;
  for (let row = 0; row < frame.layers.length; row += 1) {
    const y = g.top + row * g.cell_height;
    for (let e = 0; e < frame.n_experts; e += 1) {
      const fair = fairness(frame, row, e);
      const x = g.left + e * g.cell_width;
      const at = place(look.scale, fair ?? 0, frame.calls[row * frame.n_experts + e] ?? 0, look.high);
      const colour = colours[Math.min(255, Math.max(0, Math.round(at * 255)))];
      c.fillStyle = fair === null || !colour ? look.empty : colour;
      c.fillRect(x, y, g.cell_width - gap, g.cell_height - gap);
    }
  }
}

function evenness(c: CanvasRenderingContext2D, g: Geometry, frame: Frame, look: Look): void {
  if (g.bars === 0) return;
  const x = g.right + 10;
  const reach = g.bars - 14;
  frame.entropy.forEach((entropy, row) => {
    const y = g.top + row * g.cell_height;
    c.fillStyle = look.empty;
    c.fillRect(x, y + 2, reach, g.cell_height - 5);
    c.fillStyle = look.muted;
    if (entropy !== null) c.fillRect(x, y + 2, reach * Math.min(1, Math.max(0, entropy)), g.cell_height - 5);
  });
}

/** An outline that is seen on every colour: dark without, light within, or the other way round. */
export function outline(c: CanvasRenderingContext2D, g: Geometry, at: Place, outer: string, inner: string): void {
  const x = g.left + at.expert * g.cell_width;
  const y = g.top + at.row * g.cell_height;
  c.lineWidth = 3;
  c.strokeStyle = outer;
  c.strokeRect(x - 0.5, y - 0.5, g.cell_width, g.cell_height);
  c.lineWidth = 1.5;
  c.strokeStyle = inner;
  c.strokeRect(x - 0.5, y - 0.5, g.cell_width, g.cell_height);
}

export function draw(c: CanvasRenderingContext2D, g: Geometry, frame: Frame, look: Look, hot: Place[], at: Place | null): void {
  c.clearRect(0, 0, g.width, g.height);
  labels(c, g, frame, look);
  cells(c, g, frame, look);
  evenness(c, g, frame, look);
  for (const place of hot) outline(c, g, place, '#000', '#ff9d2e');
  if (at) outline(c, g, at, '#000', '#fff');
}
