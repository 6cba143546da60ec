import { clock, percent, short, span } from '../lib/format';
import { alarms, cell, link, state } from '../lib/model';
import { useStore } from '../lib/store';
import type { Alarm } from '../lib/types';

function Table({ label, list, now }: { label: string; list: Alarm[]; now: number }) {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={label}>
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">Layer</th><th scope="col">Expert</th><th scope="col">Share</th><th scope="col">× fair</th>
            <th scope="col">Peak</th><th scope="col">Since</th><th scope="col">For</th>
            <th scope="col"><span class="unseen">Heat map</span></th>
          </tr>
        </thead>
        <tbody>
          {list.map((alarm) => (
            <tr key={`${alarm.layer} ${alarm.expert} ${alarm.since}`} class={alarm.until === null ? 'hot' : ''}>
              <td>{alarm.layer}</td>
              <td>{alarm.expert}</td>
              <td>{percent(alarm.share)}</td>
              <td>{short(alarm.share / alarm.fair_share)}</td>
              <td>{percent(alarm.peak_share)}</td>
              <td>{clock(alarm.since)}</td>
              <td>{span(((alarm.until ?? now) - alarm.since) / 1000)}</td>
              <td>
                <a href={link('overview')} onClick={() => cell.set({ layer: alarm.layer, expert: alarm.expert })}
                  aria-label={`Layer ${alarm.layer}, expert ${alarm.expert} on the heat map`}>map</a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Hot experts: those of now, and the last that were. */
export function AlarmsView() {
  const known = useStore(state);
  const all = useStore(alarms);
  if (known && !known.alarms) {
    return <p class="quiet">No alarms: the model is dense, or the server was started with <code>--hot-expert 0</code>.</p>;
  }
  if (!all) return <p class="quiet">Loading …</p>;
  return (
    <>
      <section class="panel" aria-labelledby="open-title">
        <h2 id="open-title">{all.n_open === 0 ? 'No hot experts' : `Hot experts: ${all.n_open}`}</h2>
        <p class="quiet">
          An expert is hot from {short(all.raise_factor)} times its fair share on, until it falls below
          {` ${short(all.clear_factor)}`} times.
        </p>
        {all.open.length > 0 && <Table label="Hot experts" list={all.open} now={all.now} />}
        {all.n_open > all.open.length && <p class="quiet">The hottest {all.open.length} are listed.</p>}
      </section>
      <section class="panel" aria-labelledby="past-title">
        <h2 id="past-title">Past alarms</h2>
        {all.past.length === 0 ? <p class="quiet">None.</p> : <Table label="Past alarms" list={all.past} now={all.now} />}
        <p class="quiet">{all.n_raised} since the start of the server.</p>
      </section>
    </>
  );
}
