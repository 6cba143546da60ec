#include "observe/profile_page.h"

namespace soli::profile_page {

const std::string_view kStyleSheet = R"css(
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #59636e; --rule: #d0d7de; --card: #f6f8fa;
  --link: #0550ae; --c0: #0072b2; --c1: #c24e00; --c2: #00805d; --c3: #b04a85; --c4: #946c00; --c5: #2f8fc4;
  --c6: #6e7781; }
@media (prefers-color-scheme: dark) { :root { --back: #0f1419; --text: #e6e8eb; --soft: #9da7b3; --rule: #353c45;
  --card: #171c22; --link: #79b8ff; --c0: #4da3e0; --c1: #f2803f; --c2: #2bbf96; --c3: #dd8dbb; --c4: #d9a520;
  --c5: #7cc7f2; --c6: #9da7b3; } }
@media print { :root { color-scheme: light; --back: #fff; --text: #000; --soft: #444; --rule: #bbb; --card: #fff;
  --link: #000; --c0: #0072b2; --c1: #c24e00; --c2: #00805d; --c3: #b04a85; --c4: #946c00; --c5: #2f8fc4;
  --c6: #6e7781; } nav { display: none; } figure, tr { break-inside: avoid; } .scroll { overflow: visible; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem clamp(0.75rem, 3vw, 2rem) 3rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; padding-top: 0.5rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.25rem 0 0.25rem; }
p, ul, figcaption { max-width: 48rem; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible, svg:focus-visible { outline: 2px solid var(--link);
  outline-offset: 2px; }
nav ul, .legend { display: flex; flex-wrap: wrap; gap: 0.15rem 1rem; list-style: none; padding: 0; max-width: none; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1rem; margin: 0.75rem 0; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; }
.verdict { font-size: 1.1rem; background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: 0.75rem 1rem; }
.note { color: var(--soft); font-size: 0.9rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 0.5rem 1.5rem; }
figure { margin: 0.5rem 0; min-width: 0; }
figcaption { font-size: 0.95rem; }
output { display: block; min-height: 1.4em; color: var(--soft); font-size: 0.85rem; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg.plot, svg.heat { display: block; width: 100%; height: auto; }
svg.colours { display: block; width: min(100%, 24rem); height: auto; }
svg image { image-rendering: pixelated; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
svg .rule { stroke: var(--rule); }
svg .mark { stroke: #fff; stroke-width: 1.5; paint-order: stroke; filter: drop-shadow(0 0 1px #000); }
svg .line { stroke: var(--c); } svg g.line { fill: var(--c); stroke: none; }
.main { --c: var(--text); } .c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); }
.c3 { --c: var(--c3); } .c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; margin: 0.25rem 0; }
caption { text-align: left; color: var(--soft); }
th, td { padding: 0.15rem 0.5rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; } thead th { white-space: normal; overflow-wrap: normal; }
th:first-child { text-align: left; }
.words td, .words th { text-align: left; white-space: normal; overflow-wrap: normal; }
details { margin: 0.35rem 0; }
summary { cursor: pointer; color: var(--link); }
)css";

const std::string_view kScript = R"js(
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const percent = share => (100 * share).toFixed(2) + " %";
  const clamp = (value, end) => Math.max(0, Math.min(end - 1, value));
  const share = (layer, expert) => layer.calls_total > 0 ? layer.calls[expert] / layer.calls_total : 0;
  const times = share => (share * report.experts).toFixed(2) + " times the fair share";
  function readOut(map, row, expert) {
    const { target, kind } = map.dataset;
    const layer = (target === "all" ? report.all : report.domains[Number(target)]).layers[row];
    const here = share(layer, expert), all = share(report.all.layers[row], expert);
    let text = `Layer ${layer.layer}, expert ${expert}: ${layer.calls[expert]} calls, ${percent(here)}, ${times(here)}`;
    if (kind === "difference") text += `; of all domains ${percent(all)}, ${times(all)}`;
    return text;
  }
  for (const map of document.querySelectorAll("svg.heat")) {
    const cells = map.querySelector("image"), mark = map.querySelector(".mark");
    const output = map.closest("figure").querySelector("output");
    const title = map.querySelector("title"), name = title.textContent;
    const n = report.all.layers.length, left = cells.x.baseVal.value, top = cells.y.baseVal.value;
    let row = 0, expert = 0;
    const show = (toRow, toExpert) => {
      row = clamp(toRow, n);
      expert = clamp(toExpert, report.experts);
      output.textContent = readOut(map, row, expert);
      title.textContent = output.textContent;
      mark.setAttribute("visibility", "visible");
      mark.setAttribute("x", left + expert * mark.width.baseVal.value);
      mark.setAttribute("y", top + row * mark.height.baseVal.value);
    };
    map.addEventListener("pointermove", event => {
      const box = cells.getBoundingClientRect();
      show(Math.floor((event.clientY - box.top) / box.height * n),
           Math.floor((event.clientX - box.left) / box.width * report.experts));
    });
    map.addEventListener("pointerleave", () => { title.textContent = name; });
    map.tabIndex = 0;
    map.addEventListener("keydown", event => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      show(row + step[0], expert + step[1]);
    });
  }
})();
)js";

const std::string_view kContentPolicy =
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'sha256-UkD+gg20lRNCIcaOfw1aPcosoZH62aeodwKUFEL/Lm0='";

}  // namespace soli::profile_page
