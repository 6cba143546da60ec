import { useState } from 'preact/hooks';
import { clock, policyText, seconds, whole } from '../lib/format';
import { epoch, link, route, state } from '../lib/model';
import { usePoll } from '../lib/poll';
import { useStore } from '../lib/store';
import { TokenStore } from '../lib/token_store';
import type { RequestLine, Requests, RequestTokens } from '../lib/types';
import { RequestList } from './request_list';
import { TokenText } from './token_text';

const LIST_MS = 2000;
const RUNNING_MS = 1000;
const DONE_MS = 30_000;

/** The tokens of the chosen request; `version` counts what was added to them. */
interface Kept {
  line: RequestLine | null;
  store: TokenStore | null;
  version: number;
  error: string | null;
}
const NOTHING: Kept = { line: null, store: null, version: 0, error: null };

function useRequest(id: string): Kept {
  const start = useStore(epoch);
  const [all, keep] = useState<Kept>(NOTHING);
  const kept = all.store?.id === id || all.line?.id === id || all.error ? all : NOTHING;
  const [seen, see] = useState(`${id} ${start}`);
  if (seen !== `${id} ${start}`) {
    see(`${id} ${start}`);
    keep(NOTHING);
  }
  usePoll<RequestTokens>(
    () => (id ? `requests/${encodeURIComponent(id)}?since=${kept.store?.since() ?? 0}` : null),
    kept.line?.state === 'done' ? DONE_MS : RUNNING_MS,
    (answer) => {
      const store = kept.store ?? new TokenStore(answer.id, answer.layers);
      store.add(answer);
      const { tokens: _tokens, layers: _layers, ...line } = answer;
      keep({ line, store, version: kept.version + 1, error: null });
    },
    (error) => error && keep({ ...NOTHING, error: error.message }), `${id} ${start}`,
  );
  return kept;
}

function About({ line }: { line: RequestLine }) {
  const part = (label: string, value: string) => <div><dt>{label}</dt><dd>{value}</dd></div>;
  return (
    <dl class="about">
      {part('Started', clock(line.started))}
      {part('State', line.outcome ?? line.state)}
      {part('Prompt', `${whole(line.prompt_tokens)} tokens, ${whole(line.cached_tokens)} cached`)}
      {part('Generated', `${whole(line.generated_tokens)} tokens`)}
      {part('Queue', seconds(line.queue_seconds))}
      {part('Prefill', seconds(line.prefill_seconds))}
      {part('Decode', seconds(line.decode_seconds))}
      {part('Experts per token', whole(line.experts_per_token))}
      {part('Routing', line.exact ? 'exact' : policyText(line.policy))}
    </dl>
  );
}

function Chosen({ id }: { id: string }) {
  const { line, store, version, error } = useRequest(id);
  if (error) return <section class="panel"><p class="error" role="alert">{error}</p></section>;
  if (!line || !store) return <section class="panel"><p class="quiet">Loading …</p></section>;
  return (
    <section class="panel" aria-labelledby="request-title">
      <h2 id="request-title">{line.id} <small class="quiet">{line.path}</small></h2>
      <About line={line} />
      {line.has_tokens ? <TokenText store={store} version={version} dropped={line.n_dropped_tokens + store.forgotten} /> : (
        <p class="quiet">Its tokens are not remembered. Send <code>"routing": true</code> with the request, or start the
          server with <code>--dashboard-routing all</code>.</p>
      )}
    </section>
  );
}

/** Requests to choose from, and the tokens of the chosen one coloured by their experts. */
export function TokensView() {
  const { argument } = useStore(route);
  const known = useStore(state);
  const [requests, setRequests] = useState<RequestLine[]>([]);
  usePoll<Requests>('requests', LIST_MS, (answer) => setRequests(answer.requests));
  const first = requests.find((line) => line.has_tokens) ?? requests[0];
  // Without a choice it stays with the first that it showed, as long as that is remembered: a text that changes under
  // the eyes of its reader is no text.
  const [pinned, pin] = useState('');
  if (!argument && first && !requests.some((line) => line.id === pinned)) pin(first.id);
  const id = argument || pinned;
  if (known?.requests.max === 0) {
    return <p class="quiet">The server remembers no requests (<code>--dashboard-requests 0</code>).</p>;
  }
  return (
    <div class="sides">
      <RequestList requests={requests} chosen={id} href={(line) => link('tokens', line)} />
      {id ? <Chosen key={id} id={id} /> : (
        <section class="panel">
          <p class="quiet">No request yet. Those that ask for <code>"routing"</code> show their tokens here
            ({known?.requests.routing === 'all' ? 'and so do all others' : 'or all, with --dashboard-routing all'}).</p>
        </section>
      )}
    </div>
  );
}
