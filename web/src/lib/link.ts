// The way to the server: the key, one status for the whole page, and errors that say what the server said.
import { sendable, UNKNOWN_KEY, UNSENDABLE_KEY } from './key_text';
import { Store } from './store';

export type Status =
  | { kind: 'connecting' }
  | { kind: 'ok' }
  | { kind: 'loading'; progress: number | null }
  | { kind: 'lost'; since: number; retry_at: number; why: string }
  | { kind: 'locked'; wrong: string };  // what is wrong with the key; '': there is none

// "/dashboard" may lie behind a prefix of a proxy; the API lies beside it.
const ROOT = location.pathname.replace(/dashboard\/?$/, '');
const KEY_NAME = 'soli.key';
const TIMEOUT_MS = 10_000;

/** The key lives as long as the tab does, and is sent to the host of the page only. */
export const key = {
  get: () => sessionStorage.getItem(KEY_NAME) ?? '',
  set: (value: string) => sessionStorage.setItem(KEY_NAME, value),
  forget: () => sessionStorage.removeItem(KEY_NAME),
};

function atFirst(): Status {
  if (sendable(key.get())) return { kind: 'connecting' };
  key.forget();
  return { kind: 'locked', wrong: UNSENDABLE_KEY };
}

export const status = new Store<Status>(atFirst());

/** The server answered 401. */
export function lock(): void {
  status.set({ kind: 'locked', wrong: key.get() === '' ? '' : UNKNOWN_KEY });
}

/** An answer with an error status, in the server's words. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  let message = `${response.status} ${response.statusText}`;
  let code = '';
  try {
    const { error } = (await response.json()) as { error: { message?: unknown; code?: unknown } };
    message = String(error.message ?? message);
    code = String(error.code ?? '');
  } catch {
    // No JSON: a proxy on the way answered. Its status is all that is known.
  }
  return new ApiError(response.status, code, message);
}

function headers(more: Record<string, string>): Record<string, string> {
  const found = key.get();
  return found ? { ...more, Authorization: `Bearer ${found}` } : more;
}

/** A successful answer, 304 included. Throws ApiError, or what fetch throws where the server is not reached. */
async function send(path: string, init: RequestInit, more: Record<string, string>): Promise<Response> {
  const response = await fetch(ROOT + path, { ...init, headers: headers(more), cache: 'no-store', redirect: 'error' });
  if (response.ok || response.status === 304) return response;
  throw await errorOf(response);
}

export interface Got<T> {
  data: T | null;  // null: nothing has changed
  etag: string | null;
}

export async function get<T>(path: string, etag: string | null): Promise<Got<T>> {
  const more: Record<string, string> = etag ? { 'If-None-Match': etag } : {};
  const response = await send(path, { signal: AbortSignal.timeout(TIMEOUT_MS) }, more);
  if (response.status === 304) return { data: null, etag };
  return { data: (await response.json()) as T, etag: response.headers.get('ETag') };
}

/** Posts JSON; the body of the answer is left to be read. A missing key locks the page, as anywhere else. */
export async function post(path: string, body: unknown, signal: AbortSignal): Promise<Response> {
  try {
    const init = { method: 'POST', body: JSON.stringify(body), signal };
    return await send(path, init, { 'Content-Type': 'application/json' });
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) lock();
    throw error;
  }
}
