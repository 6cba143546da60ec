// Answers of /api/v1/dashboard/, version 1 (docs/dashboard.md says what each member means).
// Times are milliseconds since 1970, durations seconds.

export type Column = (number | null)[];
export type Policy = Record<string, unknown>;

export interface Tier {
  name: string;
  window_ms: number;
  max_windows: number;
  windows: number;
}

export interface State {
  version: number;
  now: number;
  started: number;
  uptime_seconds: number;
  model: {
    id: string; architecture: string; layers: number; vocab_size: number; context_length: number;
    parameters: number; weight_bytes: number;
  };
  experts: { layers: number[]; per_layer: number; per_token: number; per_token_max: number } | null;
  exact: boolean;
  policy: Policy;
  allow_policy: string[] | string;
  tiers: Tier[];
  half_life_seconds: number;
  alarms: { raise_factor: number; clear_factor: number; min_calls: number; open: number; raised: number } | null;
  requests: { max: number; routing: string; max_bytes: number; bytes: number };
  engine: {
    running: number; paused: number; waiting: number; max_running: number; kv_pages_in_use: number; kv_pages_max: number;
  };
  memory: { parts: Record<string, number>; limit_bytes: number | null };
  expert_slots: unknown;
}

export type Series = { tier: string; window_ms: number; now: number; begin: number[]; complete: boolean[] } & Record<
  string, unknown
>;

export interface HeatLayer {
  layer: number;
  n_calls: number;
  entropy: number | null;
  cv: number | null;
  hottest_expert: number | null;
  hottest_share: number | null;
  never_called: number;
  calls: number[];
}

export interface Heat {
  tier: string;
  window_ms: number;
  windows: number;
  from: number | null;
  to: number | null;
  seconds: number;
  n_calls: number;
  layers: HeatLayer[];
}

export interface Experts {
  now: number;
  half_life_seconds: number;
  layers: {
    layer: number; n_calls: number; decayed_calls: number;
    calls: number[]; busy_seconds: number[]; share: (number | null)[];
    heat: number[]; decayed_share: (number | null)[]; call_seconds: (number | null)[]; hot: number[];
  }[];
}

export interface Alarm {
  layer: number;
  expert: number;
  since: number;
  until: number | null;
  share: number;
  peak_share: number;
  fair_share: number;
}

export interface Alarms {
  now: number;
  raise_factor: number | null;
  clear_factor: number | null;
  n_open: number;
  n_raised: number;
  open: Alarm[];
  past: Alarm[];
}

export interface RequestLine {
  id: string;
  path: string;
  started: number;
  state: 'waiting' | 'running' | 'done';
  outcome: string | null;
  stream: boolean;
  choices: number;
  experts_per_token: number | null;
  policy: Policy | null;  // null: too large
  exact: boolean;
  prompt_tokens: number | null;
  cached_tokens: number | null;
  generated_tokens: number | null;
  queue_seconds: number | null;
  prefill_seconds: number | null;
  decode_seconds: number | null;
  has_tokens: boolean;
  n_tokens: number;
  n_dropped_tokens: number;
}

export interface Requests {
  now: number;
  requests: RequestLine[];
}

export interface RoutedToken {
  position: number;
  token: number;
  text: string;
  generated: boolean;
  experts: number[][] | null;
  weights: number[][] | null;
}

export type RequestTokens = RequestLine & { layers: number[]; tokens: RoutedToken[] };
