// Puts the page together from the data elements in it.

import { diff } from '#page/diff';
import { byId, contents, redraw } from '#page/dom';
import { inflate } from '#page/encoding';
import { operations, timeByRank } from '#page/operations';
import { pairs } from '#page/pairs';
import { path } from '#page/path';
import { communicators, phases, steps } from '#page/program';
import { anomalies, channels, completeness, howTo, leftOut, overlap } from '#page/sections';
import { skew } from '#page/skew';
import { Store } from '#page/timeline/store';
import { TimelineView } from '#page/timeline/timeline';
import { sections, verdict } from '#page/verdict';
import { wires } from '#page/wires';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').DiffModel} DiffModel */

const data = (/** @type {string} */ id) => document.getElementById(`data-${id}`)?.textContent ?? null;

async function main() {
  const json = new TextDecoder().decode(await inflate(data('model') ?? ''));
  const model = /** @type {Model | DiffModel} */ (JSON.parse(json));
  const system = matchMedia('(prefers-color-scheme: dark)');
  theme(system.matches);
  const view = 'comparison' in model ? diff(model) : await report(model);
  listen(system, view);
  await view?.follow(location.hash);
  document.documentElement.dataset.ready = 'true';
}

/** The page of a run. @param {Model} model */
async function report(model) {
  /** @type {TimelineView | null} */
  let view = null;
  const store = new Store(model.timeline, data, () => view?.redraw());
  await store.open();
  verdict(model);
  operations(model);
  timeByRank(model);
  phases(model);
  steps(model, (begin, end, rank) => view?.goTo(begin, end, rank));
  path(model);
  skew(model, (begin, end, rank) => view?.goTo(begin, end, rank));
  pairs(model);
  channels(model);
  wires(model);
  overlap(model);
  communicators(model);
  const places = new Map(model.timeline.locations.map(({ id }, index) => [id, index]));
  anomalies(model, ({ start_ns: begin, location: id }) => `#at=${begin}.${places.get(id) ?? 0}`);
  completeness(model);
  view = new TimelineView(model, store);
  howTo(model);
  leftOut(model);
  contents(sections(model));
  return view;
}

/** @param {boolean} dark */
function theme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  byId('theme').textContent = dark ? 'Light' : 'Dark';
}

const isDark = () => document.documentElement.dataset.theme === 'dark';

/** @param {MediaQueryList} system @param {TimelineView | null} view */
function listen(system, view) {
  const change = (/** @type {boolean} */ dark) => {
    theme(dark);
    redraw();
    view?.drawNow();
  };
  byId('theme').onclick = () => change(!isDark());
  system.onchange = () => change(system.matches);
  addEventListener('hashchange', () => void view?.follow(location.hash));
  let resized = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  addEventListener('resize', () => {
    clearTimeout(resized);
    resized = setTimeout(redraw, 80);
  });
  let wasDark = false;
  addEventListener('beforeprint', () => {
    wasDark = isDark();
    change(false);
  });
  addEventListener('afterprint', () => change(wasDark));
}

await main();
