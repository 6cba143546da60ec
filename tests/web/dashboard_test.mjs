// The dashboard in a real browser, before a real server under load.
//
//   node tests/web/dashboard_test.mjs build/release/src/soli
//
// Needs nodejs, npm and chromium of Debian, and npm's registry once (web/package-lock.json). Writes screenshots to the
// folder SHOTS, where that is set.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { aDay } from './day.mjs';
import { browser, check, equal, install, open, Soli, step, until, WEB } from './support.mjs';
import { units } from './units.mjs';

const KEY = 'a-key-of-the-test';
const HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script> \u202e<b>river';
const VIEWS = ['overview', 'tokens', 'experts', 'alarms', 'compare', 'state'];

const folder = mkdtempSync(join(tmpdir(), 'soli-web-'));
const shots = process.env.SHOTS;

async function builds() {
  execFileSync('npx', ['vite', 'build', '--outDir', folder, '--emptyOutDir=false', '--logLevel=error'], { cwd: WEB });
  const built = readFileSync(join(folder, 'index.html'));
  check(built.equals(readFileSync(join(WEB, 'dist', 'index.html'))), 'web/dist/index.html is not what web/ builds');
}

async function served(soli) {
  const page = Buffer.from(await (await fetch(`${soli.url}/dashboard`)).arrayBuffer());
  check(page.equals(readFileSync(join(WEB, 'dist', 'index.html'))), 'the server serves another page');
}

const numberOf = (text) => Number(/: ([\d\u202f]+) calls/.exec(text)?.[1]?.replaceAll('\u202f', '') ?? NaN);

/** Goes to the heat map by Tab alone, and to the expert by arrow keys. */
async function walkTo(page, expert) {
  for (let i = 0; i < 40; i += 1) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement?.classList.contains('heat'))) break;
  }
  check(await page.evaluate(() => document.activeElement?.classList.contains('heat')), 'Tab does not reach the heat map');
  await page.keyboard.press('Home');
  for (let i = 0; i < expert; i += 1) await page.keyboard.press('ArrowRight');
  const said = await page.locator('[aria-live=polite]').innerText();
  check(said.startsWith(`Layer 0, expert ${expert}: `), `the cursor says ${said}`);
}

async function heatMoves({ page }, soli) {
  await page.goto(`${soli.url}/dashboard`);
  await page.locator('.link.ok').waitFor();
  const load = soli.load();
  await walkTo(page, 5);
  const cell = page.locator('.readout .cell');
  const first = await until(async () => numberOf(await cell.innerText()) > 0 && cell.innerText(), 'the cell has calls');
  const picture = () => page.evaluate(() => document.querySelector('.heat canvas').toDataURL());
  const before = await picture();
  await until(async () => (await cell.innerText()) !== first && (await picture()) !== before, 'the heat map moves');
  await load.stop();
}

async function scrubs({ page }) {
  const slider = page.getByLabel('Window that is shown');
  await slider.focus();
  check((await slider.getAttribute('aria-valuetext')).startsWith('live'), 'it does not begin live');
  for (let i = 0; i < 3; i += 1) await page.keyboard.press('ArrowLeft');
  const stopped = await slider.getAttribute('aria-valuetext');
  check(!stopped.startsWith('live'), `scrubbed, and still ${stopped}`);
  // What was scrubbed to stays, while time goes on.
  await until(async () => Number(await slider.getAttribute('max')) - Number(await slider.inputValue()) > 4, 'time goes on');
  equal((await slider.getAttribute('aria-valuetext')).split(',')[0], stopped.split(',')[0], 'the window that is shown');
  await page.keyboard.press('End');
  check((await slider.getAttribute('aria-valuetext')).startsWith('live'), 'End does not go live');
}

async function alarms({ page }, soli) {
  const load = soli.load({ policy: { force: [3] } });
  await page.locator('.count').waitFor();
  await load.stop();
  await page.getByRole('link', { name: /^Alarms/ }).click();
  const rows = await page.locator('main section').first().locator('tbody tr').allInnerTexts();
  check(rows.length > 0 && rows.every((row) => row.split('\t')[1] === '3'), `the alarms are of ${JSON.stringify(rows)}`);
  await page.getByRole('link', { name: 'Layer 0, expert 3 on the heat map' }).click();
  await until(async () => (await page.locator('.readout').innerText()).includes('hot'), 'the heat map says that it is hot');
  return `${rows.length} hot`;
}

/** The numbers below the tokens, layer by layer, are those of the API's own answer. */
async function tokens({ page }, soli) {
  const body = { prompt: 'The river is', max_tokens: 12, temperature: 0, routing: 'tokens' };
  const { answer, id } = await soli.post('/v1/completions', body);
  const routed = answer.choices[0].routing.tokens;
  await page.goto(`${soli.url}/dashboard#tokens/${id}`);
  await page.locator('.token').first().waitFor();
  const n_layers = routed[0].experts.length;
  for (let row = 0; row < n_layers; row += 1) {
    await page.getByLabel('Coloured by layer').selectOption({ index: row });
    const shown = await page.locator('.token small').allInnerTexts();
    equal(shown.slice(0, routed.length), routed.map((token) => String(token.experts[row][0])), `experts of layer ${row}`);
    equal(shown.slice(routed.length), ['–'], 'the last token, which did not go through the model');
  }
  const text = (await page.locator('.token bdi').allInnerTexts()).join('');
  check(text.endsWith(answer.choices[0].text.replaceAll('\n', '↵')), `the tokens say ${text}, the answer ${answer.choices[0].text}`);
  await page.locator('.tokens').focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  const detail = await page.locator('.detail tbody tr').allInnerTexts();
  const wanted = routed[1].experts.map((experts, row) =>
    experts.map((expert, i) => `${expert} ${routed[1].weights[row][i].toFixed(3)}`).join(' '));
  equal(detail.map((line) => line.split('\t')[1].replace(/\s+/g, ' ').trim()), wanted, 'detail of the second token');
  await page.reload();
  await page.locator('.token').first().waitFor();
  check((await page.locator('#request-title').innerText()).startsWith(id), 'after a reload another request is shown');
}

async function hostile({ page }, soli) {
  const { id } = await soli.post('/v1/completions', { prompt: HOSTILE, max_tokens: 4, temperature: 0, routing: 'tokens' });
  await page.goto(`${soli.url}/dashboard#tokens/${id}`);
  await until(async () => (await page.locator('.token bdi').allInnerTexts()).join('').includes('<img src=x onerror='),
    'the text is shown');
  equal(await page.evaluate(() => document.querySelectorAll('#app img, #app script, .tokens b').length), 0, 'elements of its text');
  check(!(await page.locator('.tokens').innerText()).includes('\u202e'), 'a character that turns the text round is shown as is');
  equal(await page.evaluate(() => window.pwned ?? null), null, 'what the text wants to run');
}

async function compares({ page }, soli) {
  await page.goto(`${soli.url}/dashboard#compare`);
  await page.getByLabel('Prompt').fill('The river');
  await page.getByLabel('Policy to try').fill('mask = [11, "3-4"\n');
  await page.getByRole('button', { name: 'Run both' }).click();
  check((await page.locator('#policy-note').innerText()).startsWith('line 1: '), 'an error of the policy names its line');
  await page.getByLabel('Policy to try').fill('# TOML\nmask = [11, "3-4"]\n[[layers]]\nlayers = "0-1"\nexperts_per_token = 1\n');
  await page.getByLabel('Tokens').fill('24');
  await page.getByRole('button', { name: 'Run both' }).click();
  const verdict = await until(async () => {
    const said = await page.locator('.verdict').allInnerTexts();
    return said[0];
  }, 'both sides are done');
  const texts = await page.locator('.answer .text').allInnerTexts();
  const exact = await soli.post('/v1/completions', { prompt: 'The river', max_tokens: 24, temperature: 0, seed: 1 });
  equal(texts[0], exact.answer.choices[0].text, 'the exact side');
  const policy = { mask: [11, '3-4'], layers: [{ layers: '0-1', experts_per_token: 1 }] };
  const steered = await soli.post('/v1/completions', { prompt: 'The river', max_tokens: 24, temperature: 0, seed: 1, policy });
  equal(texts[1], steered.answer.choices[0].text, 'the side of the policy');
  const marks = await page.locator('.answer mark').count();
  equal(marks > 0, texts[0] !== texts[1], 'differences are marked');
  return verdict;
}

async function narrow(engine, soli) {
  for (const colorScheme of ['light', 'dark']) {
    const { context, page, errors } = await open(engine, soli.url, { viewport: { width: 360, height: 740 }, colorScheme });
    for (const view of VIEWS) {
      await page.goto(`${soli.url}/dashboard#${view}`);
      await page.locator('main .panel').first().waitFor();
      await page.waitForTimeout(500);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wider <= 0, `${view} is ${wider} pixels wider than a window of 360`);
      if (shots) await page.screenshot({ path: join(shots, `${colorScheme}-${view}-360.png`), fullPage: true });
      if (shots) {
        await page.setViewportSize({ width: 1400, height: 900 });
        await page.waitForTimeout(1200);
        await page.screenshot({ path: join(shots, `${colorScheme}-${view}.png`), fullPage: true });
        await page.setViewportSize({ width: 360, height: 740 });
      }
    }
    equal(errors, [], 'errors of the page');
    await context.close();
  }
}

async function reconnects({ page }, soli, program) {
  await page.goto(`${soli.url}/dashboard#experts`);
  await page.locator('.link.ok').waitFor();
  await soli.kill();
  await page.locator('.link.lost').waitFor();
  const again = await new Soli(program, soli.port).ready();
  await page.locator('.link.ok').waitFor();
  await again.post('/v1/completions', { prompt: 'The river', max_tokens: 8, temperature: 0 });
  await until(async () => /\b[1-9]/.test((await page.locator('tbody td:nth-child(3)').allInnerTexts()).join(' ')), 'it counts anew');
  return again;
}

async function keys(engine, program) {
  const path = join(folder, 'keys');
  writeFileSync(path, `${KEY} tester\n`);
  const soli = await new Soli(program, 0, '--api-key-file', path).ready();
  const { context, page, strangers, errors } = await open(engine, soli.url);
  await page.goto(`${soli.url}/dashboard`);
  await page.getByLabel('API key').fill('not-the-right-key');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  await page.getByLabel('API key').fill(KEY);
  await page.keyboard.press('Enter');
  await page.locator('.heat').waitFor();
  await page.reload();
  await page.locator('.heat').waitFor();
  const kept = await page.evaluate(() => [localStorage.length, document.cookie, sessionStorage.length]);
  equal(kept, [0, '', 1], 'where the key is kept');
  await page.getByRole('button', { name: 'Forget key' }).click();
  await page.getByLabel('API key').waitFor();
  equal(await page.evaluate(() => sessionStorage.length), 0, 'keys that are kept after it was forgotten');
  equal([strangers, errors], [[], []], 'questions to others, errors');
  await context.close();
  await soli.kill();
}

async function main() {
  const program = process.argv[2];
  check(program, 'usage: dashboard_test.mjs PROGRAM');
  install();
  await step('the page is what its sources build', builds);
  await step('its parts', units);
  let soli = await new Soli(program, 0).ready();
  const engine = await browser();
  try {
    const window_ = await open(engine, soli.url);
    await step('the server serves it', () => served(soli));
    await step('the heat map moves, and is walked by keyboard', () => heatMoves(window_, soli));
    await step('windows are scrubbed by keyboard', () => scrubs(window_));
    await step('an alarm tells of a planted hot expert', () => alarms(window_, soli));
    await step('tokens show their experts', () => tokens(window_, soli));
    await step('hostile text stays text', () => hostile(window_, soli));
    await step('a policy is tried against the exact answer', () => compares(window_, soli));
    await step('narrow windows, light and dark', () => narrow(engine, soli));
    await step('it reconnects', async () => {
      soli = await reconnects(window_, soli, program);
    });
    await step('no other host is asked, and nothing broke', () => {
      equal([window_.strangers, window_.errors], [[], []], 'questions to others, errors');
    });
    await step('keys', () => keys(engine, program));
    await step('a day of data', () => aDay(engine));
  } finally {
    await engine.close();
    await soli.kill();
    rmSync(folder, { recursive: true });
  }
}

await main();
