// One completion, streamed: its text as it comes, its speed, and the routing of its tokens.
import { post } from './link';
import type { Policy } from './types';

export interface Ask {
  prompt: string;
  chat: boolean;
  max_tokens: number;
  temperature: number;
  seed: number;
  experts_per_token: number | null;
  policy: Policy | null;
}

export interface Answer {
  text: string;
  finish: string | null;
  tokens: number | null;
  first_token_s: number | null;
  per_second: number | null;
  experts_per_token: number | null;
  policy: Policy | null;
  active_parameters: number | null;
  routing: { token: number; experts: number[][] }[];
  request_id: string | null;
}

interface Chunk {
  choices?: {
    text?: string; delta?: { content?: string | null }; finish_reason?: string | null;
    routing?: {
      tokens?: { token: number; experts: number[][] | null }[];
      summary?: { all?: { active_parameters?: { mean?: number } } };
    };
  }[];
  usage?: { completion_tokens?: number } | null;
  experts_per_token?: number;
  policy?: Policy;
  error?: { message?: string };
}

const EVENT_CHARS_MAX = 1 << 24;

export const emptyAnswer = (): Answer => ({
  text: '', finish: null, tokens: null, first_token_s: null, per_second: null, experts_per_token: null, policy: null,
  active_parameters: null, routing: [], request_id: null,
});

function bodyOf(ask: Ask): Record<string, unknown> {
  const { chat, prompt, max_tokens, temperature, seed, experts_per_token, policy } = ask;
  return {
    ...(chat ? { messages: [{ role: 'user', content: prompt }] } : { prompt }),
    max_tokens, temperature, seed, stream: true, stream_options: { include_usage: true }, routing: 'tokens',
    ...(experts_per_token === null ? {} : { experts_per_token }), ...(policy === null ? {} : { policy }),
  };
}

function take(answer: Answer, chunk: Chunk): void {
  if (chunk.error) throw new Error(chunk.error.message ?? 'the answer broke off');
  const choice = chunk.choices?.[0];
  answer.text += choice?.text ?? choice?.delta?.content ?? '';
  answer.finish = choice?.finish_reason ?? answer.finish;
  answer.tokens = chunk.usage?.completion_tokens ?? answer.tokens;
  answer.experts_per_token = chunk.experts_per_token ?? answer.experts_per_token;
  answer.policy = chunk.policy ?? answer.policy;
  answer.active_parameters = choice?.routing?.summary?.all?.active_parameters?.mean ?? answer.active_parameters;
  for (const { token, experts } of choice?.routing?.tokens ?? []) if (experts) answer.routing.push({ token, experts });
}

/** The data of each event of a stream. */
async function* events(response: Response): AsyncGenerator<string> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > EVENT_CHARS_MAX) throw new Error('an event of the stream is too long');
    for (const line of lines) if (line.startsWith('data:')) yield line.slice(5).trim();
  }
}

/** Asks, and calls `show` with what there is after each event. Throws where the server refuses or the stream breaks. */
export async function complete(ask: Ask, signal: AbortSignal, show: (answer: Answer) => void): Promise<Answer> {
  const answer = emptyAnswer();
  const start = performance.now();
  let first = 0;
  let last = 0;
  const response = await post(ask.chat ? 'v1/chat/completions' : 'v1/completions', bodyOf(ask), signal);
  answer.request_id = response.headers.get('X-Request-Id');
  let ended = false;
  for await (const data of events(response)) {
    if (data === '[DONE]') {
      ended = true;
      break;
    }
    const before = answer.text.length;
    take(answer, JSON.parse(data) as Chunk);
    if (answer.text.length > before) {
      last = performance.now();
      first ||= last;
    }
    show({ ...answer });
  }
  if (!ended) throw new Error('the stream ended before the answer did');
  if (first) answer.first_token_s = (first - start) / 1000;
  if (answer.tokens !== null && answer.tokens > 1 && last > first) {
    answer.per_second = ((answer.tokens - 1) * 1000) / (last - first);
  }
  return answer;
}
