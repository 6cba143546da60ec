import { useEffect, useRef, useState } from 'preact/hooks';
import { complete, emptyAnswer, type Answer, type Ask } from '../lib/completion';
import { state } from '../lib/model';
import { PolicyError, readPolicy } from '../lib/policy_text';
import { useStore } from '../lib/store';
import type { Policy, State } from '../lib/types';
import { AnswerPanel, Differences } from './answer';

interface Run {
  answer: Answer;
  phase: 'waiting' | 'running' | 'done' | 'failed';
  error: string;
}

const IDLE: Run = { answer: emptyAnswer(), phase: 'waiting', error: '' };

const text = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Runs one side, and returns whether it came to its end. */
async function side(ask: Ask, signal: AbortSignal, set: (run: Run) => void): Promise<boolean> {
  let answer = emptyAnswer();
  set({ answer, phase: 'running', error: '' });
  try {
    answer = await complete(ask, signal, (now) => {
      answer = now;
      set({ answer, phase: 'running', error: '' });
    });
    set({ answer, phase: 'done', error: '' });
    return true;
  } catch (error) {
    set({ answer, phase: 'failed', error: signal.aborted ? 'stopped' : text(error) });
    return false;
  }
}

const allowed = ({ allow_policy }: State) =>
  (Array.isArray(allow_policy) ? allow_policy : [allow_policy]).filter((key) => key !== 'none');

/** A policy to begin with, of those that the server lets requests set. */
function example(known: State): string {
  const keys = allowed(known);
  const may = (key: string) => keys.includes('all') || keys.includes(key);
  if (may('cumulative_probability')) return 'cumulative_probability = 0.7\n';
  return may('temperature') ? 'temperature = 0.7\n' : '';
}

function note(known: State): string {
  const keys = allowed(known);
  return keys.length === 0 ?
    'This server lets requests set no policy but experts per token (start it with --allow-policy for more).' :
    `Requests may set ${keys.includes('all') ? 'every key' : keys.join(', ')}. ` +
      `Lines of TOML as in a policy file, or a JSON object.`;
}

/** What the form says, for both sides. `policy` throws PolicyError where its text is none. */
function read(form: HTMLFormElement): { base: Ask; policy: Policy | null; experts: number | null } {
  const data = new FormData(form);
  const number = (name: string) => Number(data.get(name));
  const written = String(data.get('policy') ?? '').trim();
  const experts = String(data.get('experts') ?? '').trim();
  if (written === '' && experts === '') {
    throw new PolicyError('Write a policy, or a number of experts per token: else both sides are the same.');
  }
  return {
    base: {
      prompt: String(data.get('prompt') ?? ''), chat: data.get('chat') === 'on', max_tokens: number('max_tokens'),
      temperature: number('temperature'), seed: number('seed'), experts_per_token: null, policy: null,
    },
    policy: written === '' ? null : readPolicy(written), experts: experts === '' ? null : Number(experts),
  };
}

function Fields({ known, error }: { known: State; error: string }) {
  const most = known.experts?.per_token_max ?? 1;
  return (
    <>
      <div class="pair">
        <label class="field">Prompt
          <textarea name="prompt" rows={5} required defaultValue="The river" />
        </label>
        <label class="field">Policy to try
          <textarea name="policy" rows={5} spellcheck={false} class="code" aria-describedby="policy-note"
            aria-invalid={error !== ''} defaultValue={example(known)} />
        </label>
      </div>
      <p id="policy-note" class={error ? 'error' : 'quiet'} role={error ? 'alert' : undefined}>{error || note(known)}</p>
      <div class="bar">
        <label class="choice"><span>Experts per token</span>
          <input name="experts" type="number" min={1} max={most} placeholder={String(known.experts?.per_token ?? '')} /></label>
        <label class="choice"><span>Tokens</span>
          <input name="max_tokens" type="number" min={1} max={2048} defaultValue="64" required /></label>
        <label class="choice"><span>Temperature</span>
          <input name="temperature" type="number" min={0} max={2} step="any" defaultValue="0" required /></label>
        <label class="choice"><span>Seed</span>
          <input name="seed" type="number" min={0} step={1} defaultValue="1" required /></label>
        <label class="choice check"><input name="chat" type="checkbox" /><span>as a chat</span></label>
      </div>
    </>
  );
}

/** A prompt, answered without and with a policy, one after the other so that neither slows the other down. */
export function CompareView() {
  const known = useStore(state);
  const [runs, setRuns] = useState<[Run, Run] | null>(null);
  const [error, setError] = useState('');
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), []);
  if (!known) return null;
  if (!known.experts) return <p class="quiet">This model is dense: it has no routing to steer.</p>;
  const busy = runs?.some((run) => run.phase === 'running') ?? false;

  const start = async (form: HTMLFormElement) => {
    let asked;
    try {
      asked = read(form);
    } catch (thrown) {
      if (thrown instanceof PolicyError) return setError(thrown.message);
      throw thrown;
    }
    setError('');
    const abort = new AbortController();
    control.current = abort;
    const set = (i: 0 | 1) => (run: Run) => setRuns((old) => {
      const next: [Run, Run] = old ? [...old] : [IDLE, IDLE];
      next[i] = run;
      return next;
    });
    setRuns([IDLE, IDLE]);
    if (await side(asked.base, abort.signal, set(0))) {
      await side({ ...asked.base, policy: asked.policy, experts_per_token: asked.experts }, abort.signal, set(1));
    }
  };

  return (
    <>
      <form class="panel" aria-labelledby="compare-title" onSubmit={(event) => {
        event.preventDefault();
        if (!busy) void start(event.currentTarget);
      }}>
        <h2 id="compare-title">Try a policy against {known.exact ? 'the exact answer' : 'the server’s policy'}</h2>
        <Fields known={known} error={error} />
        <div class="row">
          <button type="submit" class="main" disabled={busy}>Run both</button>
          <button type="button" disabled={!busy} onClick={() => control.current?.abort()}>Stop</button>
        </div>
      </form>
      {runs && (
        <>
          <Differences a={runs[0].answer} b={runs[1].answer} done={runs.every((run) => run.phase === 'done')} />
          <div class="pair">
            <AnswerPanel title={known.exact ? 'Exact' : 'Server’s policy'} {...runs[0]} other={runs[1].answer.text} />
            <AnswerPanel title="Policy" {...runs[1]} other={runs[0].answer.text} />
          </div>
        </>
      )}
    </>
  );
}
