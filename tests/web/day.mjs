// A day before the page: a simulated server whose clock goes on by 100 seconds each time that it is asked for its
// state, and a page whose own clock runs 40 times too fast. It is led through all views and over all windows. The heap
// must neither grow with time nor come near its limit.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Mock } from './mock_server.mjs';
import { check, equal, open, WEB } from './support.mjs';

const DAY_MS = 86_400_000;
const PACE_MS = 100_000;  // less than the two minutes of windows that the finest tier keeps
const HEAP_BYTES_MAX = 200e6;
const GROWTH_BYTES_MAX = 10e6;
const PATIENCE_MS = 900_000;
const VIEWS = ['overview', 'tokens', 'overview', 'experts', 'overview', 'alarms', 'overview', 'state', 'compare'];
const TIERS = ['1s', '10s', '1m', '10m'];

/** Runs in the page, before its script. */
function hurry(factor) {
  const [wait, now] = [window.setTimeout, performance.now.bind(performance)];
  window.setTimeout = (run, ms, ...rest) => wait(run, (ms ?? 0) / factor, ...rest);
  performance.now = () => now() * factor;
}

/** Runs in the page: another view, another tier, a window of the past or the latest. */
function poke({ view, tier, back }) {
  if (view) location.hash = view;
  const choose = (element, value, event) => {
    if (!element) return;
    const proto = Object.getPrototypeOf(element);
    Object.getOwnPropertyDescriptor(proto, 'value').set.call(element, value);
    element.dispatchEvent(new Event(event, { bubbles: true }));
  };
  if (tier) choose(document.querySelector('main > .bar select'), tier, 'change');
  const slider = document.querySelector('.scrub input');
  choose(slider, Number(slider?.max) - back, 'input');
}

async function heap(session, collect) {
  if (collect) await session.send('HeapProfiler.collectGarbage');
  return (await session.send('Runtime.getHeapUsage')).usedSize;
}

export async function aDay(engine) {
  const page_text = readFileSync(join(WEB, 'dist', 'index.html'));
  const mock = new Mock({ page: page_text, layers: 48, experts: 128, per_token: 8, pace_ms: PACE_MS });
  const url = await mock.listen();
  const { context, page, strangers, errors } = await open(engine, url);
  await page.addInitScript(hurry, 40);
  await page.goto(`${url}/dashboard`);
  const session = await context.newCDPSession(page);
  const begin = mock.now;
  const end = Date.now() + PATIENCE_MS;
  let [most, early, i] = [0, 0, 0];
  for (; mock.now - begin < DAY_MS; i += 1) {
    const view = i % 4 === 0 ? VIEWS[(i / 4) % VIEWS.length] : null;
    await page.evaluate(poke, { view, tier: i % 4 === 1 ? TIERS[Math.floor(i / 8) % 4] : null, back: i % 4 === 3 ? 0 : 7 * (i % 9) });
    await page.waitForTimeout(250);
    most = Math.max(most, await heap(session, false));
    // After a third of the day every view has been seen: what each of them takes is counted in.
    if (early === 0 && mock.now - begin > DAY_MS / 3) early = await heap(session, true);
    check(Date.now() < end, `the day does not pass: ${mock.asked} questions`);
  }
  await page.evaluate(poke, { view: 'overview', tier: '1s', back: 0 });
  await page.waitForTimeout(500);
  const late = await heap(session, true);
  equal([strangers, errors], [[], []], 'questions to others, errors');
  check(i >= 4 * VIEWS.length, `only ${i} pokes: not all views were seen`);
  check(most < HEAP_BYTES_MAX, `the heap took ${most} bytes; ${HEAP_BYTES_MAX} are allowed`);
  check(late - early < GROWTH_BYTES_MAX, `the heap grew from ${early} to ${late} bytes`);
  await context.close();
  await mock.close();
  const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
  return `heap ${mb(early)} early, ${mb(late)} late, ${mb(most)} at most; ${mock.asked} questions, ${i} pokes`;
}
