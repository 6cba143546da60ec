// What all views share. `epoch` counts the starts of the server that the page has seen: what was kept of an earlier
// one is thrown away.
import { Store } from './store';
import type { Alarms, State } from './types';

export const state = new Store<State | null>(null);
export const alarms = new Store<Alarms | null>(null);
export const epoch = new Store(0);

export function takeState(next: State): void {
  const before = state.value;
  if (before !== null && before.started !== next.started) {
    alarms.set(null);
    epoch.set(epoch.value + 1);
  }
  state.set(next);
}

/** A cell of the heat map that other views point at. */
export const cell = new Store<{ layer: number; expert: number } | null>(null);

/** `#tokens/req-1` is the view "tokens" with the argument "req-1". */
export interface Route {
  view: string;
  argument: string;
}

function read(): Route {
  const [view = '', ...rest] = location.hash.slice(1).split('/');
  let argument = rest.join('/');
  try {
    argument = decodeURIComponent(argument);
  } catch {
    argument = '';
  }
  return { view, argument };
}

export const route = new Store<Route>(read());
addEventListener('hashchange', () => route.set(read()));

export const link = (view: string, argument = '') => `#${view}${argument ? `/${encodeURIComponent(argument)}` : ''}`;
