#include "observe/diagnosis_page.h"

namespace soli {

const char* const kDiagnosisStyle = R"css(
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --soft: #595959; --line: #c9c9c9;
  --panel: #f4f4f4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #161616; --soft: #b0b0b0; --line: #444444; --panel: #222222; }
}
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 0.5rem; }
p { margin: 0.4rem 0; } .soft { color: var(--soft); }
label { margin-right: 1.5rem; } select { font: inherit; }
#columns { display: grid; grid-template-columns: 1fr; gap: 1.5rem; }
@media (min-width: 60rem) {
  #columns { grid-template-columns: 1fr 1fr; }
  #path { position: sticky; top: 0.5rem; max-height: 95vh; overflow: auto; align-self: start; }
}
#text { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.9; font-family: ui-monospace, monospace; }
.token { border-radius: 3px; padding: 1px 0; cursor: pointer; }
.token:hover, .token:focus { outline: 3px solid var(--ink); outline-offset: 1px; }
.token.pinned { outline: 3px dashed var(--ink); outline-offset: 1px; }
.token.generated { text-decoration: underline dotted; }
.change { border-left: 4px solid var(--ink); margin-left: 2px; padding-left: 2px; }
.key { display: inline-block; border-radius: 3px; padding: 0 0.4rem; margin: 0.1rem 0.3rem 0.1rem 0; }
#path { background: var(--panel); padding: 0.5rem 1rem; border-radius: 6px; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { text-align: right; padding: 0.1rem 0.5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { position: sticky; top: 0; background: var(--panel); }
td.left, th.left { text-align: left; }
td.says { text-align: left; font-family: ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
)css";

const char* const kDiagnosisBody = R"html(
<noscript><p>This page shows its data with a script of its own, which is switched off here.</p></noscript>
<p id="summary"></p>
<p><label>Layer <select id="layer"></select></label>
<label>Colours <select id="by"><option value="experts">experts of the layer</option>
<option value="segments">parts between change points</option></select></label></p>
<p id="legend"></p>
<div id="columns">
<section><h2>The text</h2>
<p class="soft">Point at a token, or reach it with the Tab and arrow keys, to see its path. Enter or a click keeps it.
A bar stands at a change point; generated tokens are underlined.</p>
<div id="text"></div></section>
<section id="path" aria-live="polite"><h2>Path of a token</h2><p class="soft">None is chosen.</p></section>
</div>
<section><h2>Change points of the routing</h2><div class="scroll" id="changes"></div></section>
<section><h2>Feed-forwards of the layer, over the text</h2><p class="soft" id="units"></p>
<div class="scroll" id="used"></div></section>
)html";

const char* const kDiagnosisScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const kinds = ['routed', 'shared', 'dense'];
// Control characters, and those that turn the direction of a text, are shown as U+FFFD.
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const clean = (text) => text.replace(unseen, '\ufffd');
const visible = (text) => clean(text).replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5');
const quote = (text) => JSON.stringify(visible(text));
const percent = (share) => (100 * share).toFixed(0) + ' %';

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function table(head, rows) {
  const made = element('table');
  const top = made.appendChild(element('thead')).appendChild(element('tr'));
  for (const [text, className] of head) top.append(element('th', text, className));
  const body = made.appendChild(element('tbody'));
  for (const row of rows) {
    const line = body.appendChild(element('tr'));
    row.forEach((text, i) => line.append(element('td', text, head[i][1])));
  }
  return made;
}

function leading(position, layer) {
  let best = null;
  for (const call of data.paths[position][layer][2])
    if (call[0] === 0 && (best === null || call[2] > best[2])) best = call;
  return best === null ? null : best[1];
}

function ranking(layer) {
  const counts = new Map();
  data.tokens.forEach((token, position) => {
    const expert = leading(position, layer);
    if (expert !== null) counts.set(expert, (counts.get(expert) || 0) + 1);
  });
  return [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

function paint(target, place) {
  const colour = data.colours[Math.min(place, data.colours.length - 1)];
  target.style.background = colour[0];
  target.style.color = colour[1] ? '#ffffff' : '#000000';
}

const tokens = data.tokens.map(([text, generated, segment], position) => {
  const made = element('span', clean(text), 'token' + (generated ? ' generated' : ''));
  if (text === '\n' || text === '') made.textContent = text === '' ? '\u00b7' : '\u23ce\n';
  made.tabIndex = 0;
  made.setAttribute('role', 'button');
  if (position > 0 && data.tokens[position - 1][2] !== segment) made.classList.add('change');
  made.addEventListener('mouseenter', () => { if (pinned === null) show(position); });
  made.addEventListener('focus', () => { if (pinned === null) show(position); });
  made.addEventListener('click', () => pin(position));
  made.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && tokens[position + step]) tokens[position + step].focus();
    if (event.key === 'Enter' || event.key === ' ') pin(position);
    if (step || event.key === ' ') event.preventDefault();
  });
  return made;
});
let pinned = null;

function pin(position) {
  if (pinned !== null) tokens[pinned].classList.remove('pinned');
  pinned = pinned === position ? null : position;
  if (pinned !== null) tokens[pinned].classList.add('pinned');
  show(position);
}

function callName(call) { return call[0] === 0 ? '#' + call[1] : kinds[call[0]]; }

function show(position) {
  const rows = [];
  data.paths[position].forEach(([norm, added, calls], layer) => {
    if (calls.length === 0) rows.push([layer, norm, added, 'none', '', '', '', '']);
    calls.forEach((call, i) => {
      const says = call[5].map(([id, p]) => quote(data.names[id]) + ' ' + p.toFixed(2)).join('  ');
      const first = i ? ['', '', ''] : [layer, norm, added];
      rows.push([...first, callName(call), call[2], call[3], percent(call[4]), says]);
    });
  });
  const head = [['layer', ''], ['|r|', ''], ['added', ''], ['expert', 'left'], ['weight', ''], ['|c|/|r|', ''],
                ['active', ''], ['says', 'says']];
  const [text, generated] = data.tokens[position];
  const title = 'Token ' + position + ' ' + quote(text) + (generated ? ', generated' : '');
  const scroll = element('div', undefined, 'scroll');
  scroll.append(table(head, rows));
  byId('path').replaceChildren(element('h2', title), scroll);
}

function draw() {
  const layer = Number(byId('layer').value);
  const bySegments = byId('by').value === 'segments';
  const ranks = ranking(layer);
  const place = new Map(ranks.map(([expert], i) => [expert, i]));
  const others = data.colours.length - 1;
  const keys = [];
  const counts = new Map();
  tokens.forEach((token, position) => {
    const expert = leading(position, layer);
    const i = bySegments ? data.tokens[position][2] % others
                         : expert === null ? others : Math.min(place.get(expert), others);
    counts.set(i, (counts.get(i) || 0) + 1);
    paint(token, i);
    const named = bySegments ? 'part ' + (data.tokens[position][2] + 1)
                             : expert === null ? 'no routed expert' : 'expert ' + expert;
    token.setAttribute('aria-label', visible(data.tokens[position][0]) + ', ' + named);
  });
  [...counts].sort((a, b) => a[0] - b[0]).forEach(([i, n]) => {
    const name = bySegments ? 'part' : i < others ? 'expert ' + ranks[i][0] : 'others';
    const key = element('span', name + ': ' + n + ' tokens', 'key');
    paint(key, i);
    keys.push(key);
  });
  byId('legend').replaceChildren(...keys);
  const head = [['', 'left'], ['calls', ''], ['active', ''], ['dead', ''], ['units', '']];
  byId('used').replaceChildren(table(head, data.used.filter((ffn) => ffn[0] === layer).map(
    ([, kind, expert, calls, active, units, dead]) =>
      [callName([kind, expert]), calls, percent(active), dead, units])));
}

byId('summary').textContent = data.summary;
byId('units').textContent = 'A unit is active in a call where it lies above ' + data.threshold +
  ' of the rms of the call\u2019s units, and dead where no call of the text has it active.';
data.paths[0]?.forEach((path, layer) => {
  const option = element('option', String(layer) + (data.moe.includes(layer) ? '' : ' (dense)'));
  option.value = layer;
  byId('layer').append(option);
});
byId('layer').value = data.layer;
byId('text').append(...tokens);
byId('layer').addEventListener('change', draw);
byId('by').addEventListener('change', draw);
if (data.changes.length > 0) {
  byId('changes').append(table([['before token', ''], ['bits', ''], ['permuted', ''], ['p', '']], data.changes));
} else {
  byId('changes').append(element('p', 'None.'));
}
draw();
)js";

}  // namespace soli
