// Puts the page together from the data elements in it.

import { diff } from '#page/diff';
import { byId, contents, redraw, unfold } from '#page/dom';
import { inflate } from '#page/encoding';
import { pathText } from '#page/format';
import { hang, notEnded } from '#page/hang';
import { quotes } from '#page/html';
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
  if (!await view?.follow(location.hash)) await view?.openMoment();
  document.documentElement.dataset.ready = 'true';
}

/** The page of a run. @param {Model} model */
async function report(model) {
  /** @type {TimelineView | null} */
  let view = null;
  const store = new Store(model.timeline, data, () => view?.redraw(), notEnded(model));
  await store.open();
  if (store.count > 0) view = new TimelineView(model, store);
  const goTo = (/** @type {Parameters<TimelineView['goTo']>} */ ...to) => view?.goTo(...to);
  // A sentence may begin a long path with its end.
  quotes(model.report.phases.flatMap(({ path: names }) => [pathText(names), `… > ${names.at(-1)}`]));
  // Who, which link, which phase; the rest is folded.
  hang(model);
  timeByRank(model);
  skew(model, goTo);
  pairs(model);
  channels(model);
  wires(model);
  phases(model);
  steps(model, goTo);
  path(model);
  operations(model);
  overlap(model);
  communicators(model);
  anomalies(model);
  completeness(model);
  howTo(model);
  leftOut(model);
  verdict(model);
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
  addEventListener('click', ({ target }) => {
    const link = target instanceof Element ? target.closest('a[href^="#"]')?.getAttribute('href') : null;
    if (link) unfold(document.getElementById(link.slice(1)));
    // The same place again is no change of the address.
    if (link === location.hash) void view?.follow(link);
  });
  let resized = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  addEventListener('resize', () => {
    clearTimeout(resized);
    resized = setTimeout(redraw, 80);
  });
  let wasDark = false;
  /** @type {HTMLDetailsElement[]} */
  let folded = [];
  addEventListener('beforeprint', () => {
    wasDark = isDark();
    folded = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll('details:not([open])'))];
    for (const one of folded) one.open = true;
    change(false);
  });
  addEventListener('afterprint', () => {
    for (const one of folded) one.open = false;
    change(wasDark);
  });
}

await main();
