// A server that answers as docs/dashboard.md says, of a model that is not there. Its clock stands, and goes on by
// `pace_ms` each time that it is asked for its state: a day of data passes in a minute. What it says is a function of the time, so it keeps nothing.
import { createServer } from 'node:http';

const TIERS = [['1s', 1000, 120], ['10s', 10_000, 180], ['1m', 60_000, 240], ['10m', 600_000, 144]];
const HOUR = 3_600_000;
const TEXTS = ['The', ' river', ' is', ' a', '\n', ' single', 'ton', ',', ' and', ' the', ' sea', ' <b>salt</b>', '.'];

/** A number from 0 to 1 of any integers, always the same. */
function noise(...numbers) {
  let h = 2166136261;
  for (const n of numbers) h = Math.imul(h ^ (n | 0), 16777619) ^ (h >>> 13);
  return (Math.imul(h ^ (h >>> 15), 2246822519) >>> 0) / 2 ** 32;
}

export class Mock {
  constructor({ page, layers = 4, experts = 16, per_token = 2, tiered = true, pace_ms = 0 }) {
    Object.assign(this, { page, n_layers: layers, n_experts: experts, per_token, tiered, pace_ms });
    this.layers = Array.from({ length: layers }, (_, i) => i);
    this.started = Date.now() - 24 * HOUR;
    this.now = Date.now();
    this.asked = 0;
    this.server = createServer((request, response) => this.answer(request, response));
  }

  listen() {
    return new Promise((resolve) => this.server.listen(0, '127.0.0.1', () => resolve(
      `http://127.0.0.1:${this.server.address().port}`)));
  }

  close() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  windows(name) {
    const tier = TIERS.find(([each]) => each === name) ?? TIERS[0];
    const [, width, max] = tier;
    const last = Math.floor(this.now / width) * width;
    return { width, max, begin: Array.from({ length: max }, (_, i) => last - (max - 1 - i) * width) };
  }

  calls(layer, expert, time, seconds) {
    const fair = seconds * 120 * this.per_token / this.n_experts;
    const drift = Math.floor(time / 60_000);
    const hot = expert === (layer * 7 + drift) % this.n_experts ? 5 : 1;
    return Math.round(fair * hot * (0.2 + 1.6 * noise(layer, expert, 1)) * (0.7 + 0.6 * noise(layer, expert, time / 1000)));
  }

  state() {
    const { layers, n_experts, per_token, now, started } = this;
    return {
      version: 1, now, started, uptime_seconds: (now - started) / 1000,
      model: { id: 'simulated', architecture: 'none', layers: layers.length, vocab_size: 4096, context_length: 8192,
        parameters: 3.1e10, weight_bytes: 1.7e10 },
      experts: { layers, per_layer: n_experts, per_token, per_token_max: per_token * 2 },
      exact: true, policy: {}, allow_policy: ['temperature', 'mask'],
      tiers: TIERS.map(([name, window_ms, max_windows]) => ({ name, window_ms, max_windows, windows: max_windows })),
      half_life_seconds: 60, alarms: { raise_factor: 4, clear_factor: 2, min_calls: 320, open: 1, raised: 70 },
      requests: { max: 16, routing: 'all', max_bytes: 8 << 20, bytes: 2 << 20 },
      engine: { running: 5, paused: 0, waiting: 2, max_running: 32, kv_pages_in_use: 900, kv_pages_max: 4096 },
      memory: { parts: { weights: 1.2e10, 'keys and values': 3.1e9, slabs: 2e8 }, limit_bytes: 2.4e10 }, expert_slots: null,
    };
  }

  series(query) {
    const tier = query.get('tier') ?? '1s';
    const { width, begin } = this.windows(tier);
    const kept = begin.filter((b) => b >= Number(query.get('since') ?? 0));
    const seconds = kept.map((b) => Math.min(width, this.now - b) / 1000 || 0.001);
    const wave = (salt, low, high) => kept.map((b) =>
      low + (high - low) * (0.5 + 0.3 * Math.sin(b / width / 9 + salt) + 0.2 * noise(salt, b / 1000)));
    const scaled = (salt, low, high) => wave(salt, low, high).map((value, i) => Math.round(value * seconds[i]));
    const cache = (salt, low, high) => (this.tiered ? scaled(salt, low, high) : kept.map(() => null));
    return {
      tier, window_ms: width, now: this.now, layers: this.layers, begin: kept, complete: kept.map((b) => b + width <= this.now),
      seconds, prompt_tokens: scaled(1, 20, 400), generated_tokens: scaled(2, 80, 240), running: wave(3, 1, 9),
      waiting: wave(4, 0, 3), kv_usage: wave(5, 0.1, 0.6), first_token_p50: wave(6, 0.05, 0.2),
      first_token_p95: wave(6, 0.1, 0.6), per_token_p50: wave(7, 0.02, 0.04), per_token_p95: wave(7, 0.04, 0.1),
      expert_calls: scaled(2, 9000, 20_000), expert_busy_seconds: wave(8, 0.2, 0.9), cache_hits: cache(9, 5000, 9000),
      cache_late: cache(10, 100, 500), cache_misses: cache(11, 50, 900), read_bytes: cache(12, 1e8, 2e9),
      wait_seconds: cache(13, 0, 0.2), entropy: wave(14, 0.85, 0.95), cv: wave(15, 0.4, 0.8),
      hottest_share: wave(16, 0.05, 0.3), alarms: kept.map((b) => (noise(b / 1000) > 0.9 ? 1 : 0)),
    };
  }

  heat(query) {
    const { width, begin } = this.windows(query.get('tier'));
    const kept = begin.filter((b) => b >= Number(query.get('from') ?? 0) && b < Number(query.get('to') ?? Infinity));
    const seconds = (kept.length * width) / 1000;
    const layers = this.layers.map((layer) => {
      const calls = Array.from({ length: this.n_experts }, (_, e) => this.calls(layer, e, kept.at(-1) ?? 0, seconds));
      const n_calls = calls.reduce((a, b) => a + b, 0);
      return { layer, n_calls, entropy: 0.9 - 0.4 * noise(layer), cv: 0.6, hottest_expert: 0, hottest_share: 0.1, never_called: 0, calls };
    });
    return { tier: query.get('tier'), window_ms: width, windows: kept.length, from: kept[0] ?? null,
      to: kept.length ? kept.at(-1) + width : null, seconds, n_calls: layers.reduce((n, l) => n + l.n_calls, 0), layers };
  }

  experts() {
    const layers = this.layers.map((layer) => {
      const calls = Array.from({ length: this.n_experts }, (_, e) => this.calls(layer, e, this.now, 6000));
      const n_calls = calls.reduce((a, b) => a + b, 0);
      const share = calls.map((n) => n / n_calls);
      return { layer, n_calls, decayed_calls: n_calls / 100, calls, busy_seconds: calls.map((n) => n * 5e-5), share,
        heat: calls.map((n) => n / 100), decayed_share: share, call_seconds: calls.map((_, e) => 5e-5 * (1 + noise(e))), hot: [] };
    });
    return { now: this.now, half_life_seconds: 60, layers };
  }

  alarms() {
    const alarm = (layer, expert, since, until) =>
      ({ layer, expert, since, until, share: 0.31, peak_share: 0.35, fair_share: 1 / this.n_experts });
    const drift = Math.floor(this.now / 60_000);
    return { now: this.now, raise_factor: 4, clear_factor: 2, min_calls: 320, n_open: 1, n_raised: 70,
      open: [alarm(2, (14 + drift) % this.n_experts, this.now - 30_000, null)],
      past: Array.from({ length: 64 }, (_, i) => alarm(0, i % this.n_experts, this.now - (i + 2) * 60_000, this.now - (i + 1) * 60_000)) };
  }

  /** A new request every ten seconds, of 400 tokens. */
  line(number) {
    return { id: `req-${String(number).padStart(16, '0')}`, path: '/v1/completions', started: number * 10_000, state: 'done',
      outcome: 'length', stream: true, choices: 1, experts_per_token: this.per_token, policy: {}, exact: true,
      prompt_tokens: 300, cached_tokens: 16, generated_tokens: 101, queue_seconds: 0, prefill_seconds: 0.4,
      decode_seconds: 2.2, has_tokens: true, n_tokens: 400, n_dropped_tokens: 0 };
  }

  tokens(number, since) {
    const tokens = Array.from({ length: 401 - since }, (_, i) => i + since).map((position) => {
      const experts = this.layers.map((layer) => Array.from({ length: this.per_token }, (_, k) =>
        Math.floor((noise(number, position, layer) * this.n_experts + k * 3) % this.n_experts)));
      const last = position === 400;
      return { position, token: position, text: TEXTS[Math.floor(noise(number, position) * TEXTS.length)], generated: position >= 300,
        experts: last ? null : experts, weights: last ? null : experts.map((row) => row.map((_, k) => 0.6 / (k + 1))) };
    });
    return { ...this.line(number), layers: this.layers, tokens };
  }

  found(path, query) {
    const request = /^requests\/req-(\d+)$/.exec(path);
    if (request) return this.tokens(Number(request[1]), Number(query.get('since') ?? 0));
    const latest = Math.floor(this.now / 10_000);
    if (path === 'requests') return { now: this.now, requests: Array.from({ length: 16 }, (_, i) => this.line(latest - i)) };
    return ['state', 'series', 'heat', 'experts', 'alarms'].includes(path) ? this[path](query) : null;
  }

  answer(request, response) {
    const url = new URL(request.url, 'http://localhost');
    this.asked += 1;
    if (url.pathname.endsWith('/state')) this.now += this.pace_ms;
    if (url.pathname === '/dashboard') return response.setHeader('Content-Type', 'text/html').end(this.page);
    const data = this.found(url.pathname.replace('/api/v1/dashboard/', ''), url.searchParams);
    response.statusCode = data ? 200 : 404;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(data ?? { error: { message: 'no such thing', code: 'unknown_url' } }));
  }
}
