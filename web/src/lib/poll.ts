// Who asks the server what, and when. Nothing is asked while the page is hidden; while the server is away only one
// question is, ever more seldom, until it answers.
import { useEffect, useRef } from 'preact/hooks';
import { ApiError, get, lock, status } from './link';

interface Task {
  path: () => string | null;  // null: not now
  every_ms: () => number;
  apply: (data: unknown) => void;
  fail: (error: ApiError | null) => void;
  due: number;
  busy: boolean;
  etag: string | null;
  etag_path: string;
}

const BASE = 'api/v1/dashboard/';
const BACKOFF_MS_MAX = 15_000;
const LOADING_MS = 1000;

const tasks = new Set<Task>();
let timer: ReturnType<typeof setTimeout> | undefined;
let failures = 0;
let probing = false;

const now = () => performance.now();

function later(at: number): void {
  clearTimeout(timer);
  timer = setTimeout(turn, Math.max(0, at - now()));
}

function turn(): void {
  if (document.hidden) return;
  const kind = status.value.kind;
  if (kind === 'locked') return;
  if (kind !== 'ok') {
    void probe();
    return;
  }
  let next = Infinity;
  for (const task of tasks) {
    if (!task.busy && task.due <= now()) void run(task);
    if (!task.busy) next = Math.min(next, task.due);
  }
  if (next < Infinity) later(next);
}

async function run(task: Task): Promise<void> {
  const path = task.path();
  task.due = now() + task.every_ms();
  if (path === null) return;
  task.busy = true;
  try {
    const got = await get(BASE + path, task.etag_path === path ? task.etag : null);
    task.etag = got.etag;
    task.etag_path = path;
    if (got.data !== null && tasks.has(task)) task.apply(got.data);
    if (tasks.has(task)) task.fail(null);
  } catch (error) {
    if (tasks.has(task)) failed(error, task);
  }
  task.busy = false;
  if (status.value.kind === 'ok') turn();
}

function failed(error: unknown, task: Task | null): void {
  if (error instanceof ApiError) {
    if (error.status === 401) return lock();
    if (error.code === 'loading') return void loading();
    if (error.status === 429 && task) return;  // Its next turn will do; a probe has none.
    if (error.status < 500 && task) return task.fail(error);
  }
  // Of several questions that were on their way when the server went, the first tells.
  if (task && status.value.kind !== 'ok') return;
  const wait = Math.min(BACKOFF_MS_MAX, 500 * 2 ** failures);
  failures += 1;
  const since = status.value.kind === 'lost' ? status.value.since : Date.now();
  const why = error instanceof ApiError ? error.message : 'no answer';
  status.set({ kind: 'lost', since, retry_at: Date.now() + wait, why });
  later(now() + wait);
}

async function loading(): Promise<void> {
  later(now() + LOADING_MS);
  let progress: number | null = null;
  try {
    progress = (await get<{ progress?: number }>('health', null)).data?.progress ?? null;
  } catch {
    // The next probe tells whether the server is there at all.
  }
  if (status.value.kind !== 'ok') status.set({ kind: 'loading', progress });
}

async function probe(): Promise<void> {
  if (probing) return;
  probing = true;
  try {
    await get(`${BASE}state`, null);
    failures = 0;
    status.set({ kind: 'ok' });
  } catch (error) {
    failed(error, null);
  }
  probing = false;
  if (status.value.kind === 'ok') askAll();
}

/** Everything is due at once: after a pause, with a new key, or because a person does not want to wait. */
export function askAll(): void {
  for (const task of tasks) task.due = 0;
  if (status.value.kind === 'locked') status.set({ kind: 'connecting' });
  later(now());
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) askAll();
});

/**
 * Asks for `path` (below /api/v1/dashboard/; null: not now) every `every_ms` while the component is shown, and hands
 * `apply` what has changed. `fail` gets what the server refuses, and null when it answers again. A change of `path` asks at once.
 */
export function usePoll<T>(
  path: string | (() => string | null) | null, every_ms: number, apply: (data: T) => void,
  fail: (error: ApiError | null) => void = () => {}, restart: unknown = path,
): void {
  const latest = useRef({ path, every_ms, apply, fail });
  latest.current = { path, every_ms, apply, fail };
  useEffect(() => {
    const task: Task = {
      path: () => {
        const found = latest.current.path;
        return typeof found === 'function' ? found() : found;
      },
      every_ms: () => latest.current.every_ms,
      apply: (data) => latest.current.apply(data as T),
      fail: (error) => latest.current.fail(error),
      due: 0, busy: false, etag: null, etag_path: '',
    };
    tasks.add(task);
    later(now());
    return () => void tasks.delete(task);
  }, [restart]);
}
