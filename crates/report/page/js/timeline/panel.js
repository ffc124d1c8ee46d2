// The selected event in words: attributes, the same on all ranks, the way from the call to the network.

import { colourName, dot, NARROW } from '#page/dom';
import { busBytes, busFactor, bytes, duration, gigabytes, moment, number, percent } from '#page/format';
import { entries, html, unit } from '#page/html';
import { functionIn } from '#page/timeline/palette';
import { beginOf, endOf, fullName, locationOf, nameOf, related } from '#page/timeline/related';

/** @typedef {import('#page/timeline/store').Store} Store */
/** @typedef {import('#page/timeline/store').Item} Item */
/** @typedef {import('#page/timeline/related').Related} Related */

const MOST_PEERS = 32;

/** @param {Store} store @param {Item} item */
const rankOf = (store, item) => store.timeline.rows[locationOf(store, item).row];

/** All that is known of an event. @param {Store} store @param {Item} item @returns {[string, unknown][]} */
export function facts(store, item) {
  const { events, at } = item;
  const whole = endOf(item) - beginOf(item);
  const wait = events.waiting[at];
  const location = locationOf(store, item);
  const set = events.attributes[at] < 0 ? [] : store.timeline.attributes[events.attributes[at]];
  const size = Number(set.find(([name]) => name === 'nccl.bytes')?.[1] ?? NaN);
  const found = /** @type {[string, unknown][]} */ ([['location', location.name],
    ['begin', moment(beginOf(item), store.timeline.duration_ns, 1e3)]]);
  if (events.sequence[at] >= 0) found.push(['sequence', number(events.sequence[at])]);
  if (wait >= 0) {
    found.push(['waiting', html`${duration(wait)} ${unit(percent(whole > 0 ? wait / whole : 0))}`],
      ['transfer', duration(whole - wait)]);
  }
  const isUnfinished = store.isUnfinished(events, at);
  found.push([isUnfinished ? 'not ended for' : wait >= 0 ? 'whole' : 'time', duration(whole)]);
  if (location.kind === 'operation') found.push(...bandwidths(nameOf(store, item), size, location, whole, wait));
  else if (size > 0 && whole > 0) found.push(['rate', `${gigabytes((size / whole) * 1e9)} GB/s`]);
  found.push(...set.map(attribute).map(([name, value]) => /** @type {[string, unknown]} */ (
    [name, name === 'nvtx.ranges' ? numberedPath(store, item, String(value)) : value])));
  return found;
}

/** A path of ranges with the numbers of those that an event is in. @param {Store} store @param {Item} item
 * @param {string} path */
function numberedPath(store, item, path) {
  const call = related(store, item).call ?? item;
  const names = /** @type {Map<string, string>} */ (new Map());
  for (const { id, kind } of store.byRow[locationOf(store, item).row]) {
    if (kind !== 'range') continue;
    store.each(id, beginOf(call), beginOf(call), (events, at) =>
      names.set(nameOf(store, { events, at }), fullName(store, { events, at })));
  }
  return path.split(' > ').map((name) => names.get(name) ?? name).join(' > ');
}

/** An attribute as people read it. @param {[string, string | number]} attribute @returns {[string, unknown]} */
function attribute([name, value]) {
  const plain = name.replace(/^nccl\./, '').replaceAll('_', ' ');
  if (typeof value !== 'number') return [plain, value];
  return [plain, /bytes/.test(name) ? bytes(value) : number(value, Number.isInteger(value) ? 0 : 2)];
}

/**
 * @param {string} name @param {number} size @param {import('../../model').Location} location
 * @param {number} whole @param {number} wait
 * @returns {[string, unknown][]}
 */
function bandwidths(name, size, { ranks }, whole, wait) {
  const factor = ranks === null ? null : busFactor(name, ranks);
  if (ranks === null || factor === null || !(size > 0) || whole <= 0) return [];
  const rate = (busBytes(name, size, ranks) / whole) * 1e9;
  const found = /** @type {[string, unknown][]} */ ([
    ['algbw, busbw', `${gigabytes(rate)}, ${gigabytes(rate * factor)} GB/s`]]);
  if (wait > 0 && whole > wait) {
    found.push(['busbw, transfer', `${gigabytes((rate * factor * whole) / (whole - wait))} GB/s`]);
  }
  return found;
}

/** @param {Store} store @param {Item} item */
export function title(store, item) {
  const name = nameOf(store, item);
  return html`${functionIn(name) ? dot(functionIn(name) ?? '') : ''}${fullName(store, item)} ${
    unit(rankOf(store, item).name)}`;
}

/** @param {Store} store @param {Item} item @param {Related} found */
export function panel(store, item, found) {
  const isOpen = innerWidth > NARROW && html` open`;
  return html`<div><h3>${title(store, item)}</h3>${peers(store, found)}${
    chain(store, found)}<div class="tools"><button type="button" data-go="previous">‹ previous</button><button
    type="button" data-go="next">next ›</button><button type="button" data-go="link">Copy link</button></div></div>
    <details${isOpen}><summary><h4>Attributes</h4></summary>${entries(facts(store, item))}</details>`;
}

/** @param {Store} store @param {Related} found */
function peers(store, { peers: all, last, operation }) {
  if (all.length < 2) return '';
  const shown = all.length <= MOST_PEERS ? all :
    [...all].sort((a, b) => beginOf(b) - beginOf(a)).slice(0, MOST_PEERS);
  const [low, high] = [Math.min(...all.map(beginOf)), Math.max(...all.map(endOf))];
  const [width, height] = [200, all.length > 8 ? 11 : 14];
  const x = (/** @type {number} */ ns) => ((ns - low) / Math.max(1, high - low)) * width;
  const rows = shown.map((item, line) => {
    const { events, at } = item;
    const arrived = store.isUnfinished(events, at) ? endOf(item) : beginOf(item) + Math.max(0, events.waiting[at]);
    const style = item === last ? 'fill:var(--accent);font-weight:600' : item.at === operation?.at &&
      item.events === operation.events ? 'fill:var(--ink);font-weight:600' : '';
    const name = rankOf(store, item).name;
    return html`<g transform="translate(64,${line * height})"><text x="-6" y="${height - 2.5}" text-anchor="end"
      style="${style}">${name.length > 10 ? `${name.slice(0, 9)}…` : name}</text><rect x="${x(beginOf(item))}" y="1.5"
      width="${Math.max(0, x(arrived) - x(beginOf(item)))}" height="${height - 3}" fill="url(#hatched)"/><rect
      x="${x(arrived)}" y="1.5" width="${Math.max(1, x(endOf(item)) - x(arrived))}" height="${height - 3}"
      fill="var(${colourName(nameOf(store, item))})"/></g>`;
  });
  const bottom = shown.length * height + 11;
  const sum = all.reduce((total, { events, at }) => total + Math.max(0, events.waiting[at]), 0);
  return html`<h4>The same on ${all.length} ranks${shown.length < all.length && `, the last ${MOST_PEERS}`}</h4>
    <svg width="268" height="${bottom + 3}" role="img" aria-label="Arrival and end on each rank"><defs><pattern
    id="hatched" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="4"
    height="4" fill="var(--hatch-bg)"/><line y2="4" stroke="var(--hatch)" stroke-width="2"/></pattern></defs>${rows}
    <text x="64" y="${bottom}">0</text><text x="264" y="${bottom}" text-anchor="end">${duration(high - low)}</text>
    </svg>
    ${last ? html`<p>Last: <span class="hot">${rankOf(store, last).name}</span>; the others waited ${duration(sum)} in
    total.</p>` : html`<p class="u">Arrivals cannot be compared here.</p>`}`;
}

/** @param {Store} store @param {Related} found */
function chain(store, { call, launch, operation, work, last }) {
  const start = call ?? launch ?? operation;
  if (!start || !operation) return '';
  const origin = beginOf(start);
  const steps = /** @type {[string, number][]} */ ([]);
  if (call) steps.push([`call ${nameOf(store, call)}`, beginOf(call)]);
  if (launch) steps.push(['launch', beginOf(launch)]);
  steps.push(['operation begins', beginOf(operation)]);
  if (last) steps.push(['last rank arrives', beginOf(last)]);
  if (work.length > 0) {
    const kinds = [...new Set(work.map((one) => locationOf(store, one).kind))];
    const what = work.length === 1 ? kinds[0] : kinds.map((kind) => `${kind}s`).join(' and ');
    steps.push([`${work.length === 1 ? 'its' : `first of ${work.length}`} ${what}`, beginOf(work[0])]);
  }
  const ends = store.isUnfinished(operation.events, operation.at) ? 'recording ends' : 'ends';
  steps.push([ends, endOf(operation)]);
  steps.sort(([, a], [, b]) => a - b);
  return html`<h4>From the call to the network, ${rankOf(store, operation).name}</h4><ol class="chain">${steps.map(
    ([what, at]) => html`<li><span>${what}</span><span>${at === origin ? '0' : `${at < origin ? '' : '+ '}${
      duration(at - origin)}`}</span></li>`)}</ol>`;
}
