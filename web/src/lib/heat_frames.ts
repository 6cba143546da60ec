// Frames of the heat map: the calls of every expert of every layer over some windows, in one flat array each.
import type { Heat } from './types';

export interface Frame {
  layers: number[];
  n_experts: number;
  calls: Float64Array;  // (layers, n_experts)
  layer_calls: number[];
  entropy: (number | null)[];
  from: number | null;
  to: number | null;
  seconds: number;
  n_calls: number;
}

export function frameOf(heat: Heat): Frame {
  const n_experts = heat.layers[0]?.calls.length ?? 0;
  const calls = new Float64Array(heat.layers.length * n_experts);
  heat.layers.forEach((layer, row) => calls.set(layer.calls.slice(0, n_experts), row * n_experts));
  return {
    layers: heat.layers.map((layer) => layer.layer), n_experts, calls,
    layer_calls: heat.layers.map((layer) => layer.n_calls), entropy: heat.layers.map((layer) => layer.entropy),
    from: heat.from, to: heat.to, seconds: heat.seconds, n_calls: heat.n_calls,
  };
}

/** Times the fair share of its layer; null where the layer was not called. */
export function fairness(frame: Frame, row: number, expert: number): number | null {
  const all = frame.layer_calls[row] ?? 0;
  return all === 0 ? null : ((frame.calls[row * frame.n_experts + expert] ?? 0) / all) * frame.n_experts;
}

const BYTES_MAX = 24 << 20;

/** Frames that were looked at, up to 24 MiB; the one that was looked at longest ago leaves first. */
export class FrameCache {
  private frames = new Map<string, Frame>();
  private bytes = 0;

  get(name: string): Frame | undefined {
    const found = this.frames.get(name);
    if (found) {
      this.frames.delete(name);
      this.frames.set(name, found);
    }
    return found;
  }

  put(name: string, frame: Frame): void {
    this.drop(name);
    this.frames.set(name, frame);
    this.bytes += frame.calls.byteLength;
    for (const oldest of this.frames.keys()) {
      if (this.bytes <= BYTES_MAX) break;
      this.drop(oldest);
    }
  }

  clear(): void {
    this.frames.clear();
    this.bytes = 0;
  }

  private drop(name: string): void {
    this.bytes -= this.frames.get(name)?.calls.byteLength ?? 0;
    this.frames.delete(name);
  }
}
