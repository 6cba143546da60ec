import type { ComponentChildren } from 'preact';
import { bytes, clock, percent, policyText, short, span, whole } from '../lib/format';
import { state } from '../lib/model';
import { useStore } from '../lib/store';
import type { State } from '../lib/types';

function Panel({ title, rows }: { title: string; rows: [string, ComponentChildren][] }) {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      <dl class="pairs">
        {rows.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}
      </dl>
    </section>
  );
}

function allowed(keys: State['allow_policy']): string {
  const list = Array.isArray(keys) ? keys : [keys];
  return list.length === 0 ? 'experts_per_token only' : list.join(', ');
}

function policyRows(known: State): [string, ComponentChildren][] {
  const keys = Object.entries(known.policy);
  return [
    ['Answers', known.exact ? 'exact: the model’s own routing' : <b class="warn">not exact</b>],
    ...(keys.length === 0 ? [['Policy', policyText({})] as [string, string]] :
      keys.map(([key, value]): [string, ComponentChildren] => [key, <code>{JSON.stringify(value)}</code>])),
    ['Requests may set', allowed(known.allow_policy)],
  ];
}

function Memory({ parts, limit }: { parts: Record<string, number>; limit: number | null }) {
  const all = Object.entries(parts).sort((a, b) => b[1] - a[1]);
  const sum = all.reduce((total, [, size]) => total + size, 0);
  const whole_size = Math.max(limit ?? sum, sum, 1);
  return (
    <section class="panel" aria-label="Memory">
      <h2>Memory</h2>
      <p>{bytes(sum)} {limit === null ? '' : `of ${bytes(limit)} (${percent(sum / whole_size)})`}</p>
      <dl class="pairs">
        {all.map(([name, size]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{bytes(size)} <i class="share" style={{ width: `${(100 * size) / whole_size}%` }} /></dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** What is served, by which policy, and what it takes. */
export function StateView() {
  const known = useStore(state);
  if (!known) return null;
  const { model, experts, engine, requests } = known;
  return (
    <div class="panels">
      <Panel title="Model" rows={[
        ['Name', model.id], ['Architecture', model.architecture], ['Layers', whole(model.layers)],
        ['Parameters', short(model.parameters)], ['Weights', bytes(model.weight_bytes)],
        ['Vocabulary', whole(model.vocab_size)], ['Context', `${whole(model.context_length)} tokens`],
        ['Experts', experts ? `${experts.per_layer} in each of ${experts.layers.length} layers` : 'none: dense'],
        ['Experts per token', experts ? `${experts.per_token} (requests: up to ${experts.per_token_max})` : '–'],
      ]} />
      <Panel title="Routing policy" rows={policyRows(known)} />
      <Panel title="Engine" rows={[
        ['Up', `${span(known.uptime_seconds)}, since ${clock(known.started)}`],
        ['Running', `${engine.running} of ${engine.max_running}`], ['Waiting', whole(engine.waiting)],
        ['Paused by clients', whole(engine.paused)],
        ['KV pages', `${whole(engine.kv_pages_in_use)} of ${whole(engine.kv_pages_max)}`],
        ['Expert slots', known.expert_slots === null ? 'all in memory' : <code>{JSON.stringify(known.expert_slots)}</code>],
        ['Remembers', `${requests.max} requests (${requests.routing}), ${bytes(requests.bytes)} of ${bytes(requests.max_bytes)}`],
      ]} />
      <Memory parts={known.memory.parts} limit={known.memory.limit_bytes} />
    </div>
  );
}
