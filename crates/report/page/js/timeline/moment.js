// The moment that matters: what the verdict speaks of, at its worst.

import { capital, duration, median } from '#page/format';
import { html } from '#page/html';
import { beginOf, endOf, fullName, locationOf, related } from '#page/timeline/related';
import { MOST_LOADED } from '#page/timeline/store';

/** @typedef {import('../../model').Report} Report */
/** @typedef {import('../../model').Model} Model */
/** @typedef {import('#page/timeline/store').Store} Store */
/** @typedef {import('#page/timeline/store').Item} Item */
/** @typedef {{ begin: number, end: number }} Span */

/** `item`: the operation that shows it. @typedef {Span & { item: Item | null }} Moment */

/** A view of the moment has about so many collectives, unless the delay would be too short to be seen in it. */
const COLLECTIVES = 4;
const ROOM = { least: 1.5, most: 4 };

/**
 * The time to show at first, and the operation to select; null where nothing stands out.
 * @param {Report} report @param {Store} store @param {Model['hang']} hang
 * @param {number | null} row Of the rank that the verdict names, if it names one
 * @returns {Promise<Moment | null>}
 */
export async function momentOf(report, store, hang, row) {
  const { verdict: { finding }, causes: [cause = null], run } = report;
  if (finding === 'unfinished') return hangOf(store, hang);
  if (!cause && finding !== 'pauses') return null;
  const busy = store.busy();
  const length = (busy.end - busy.begin) / Math.max(COLLECTIVES * 2, run.instances) * COLLECTIVES;
  const time = timeOfCause(cause, busy);
  const anomaly = anomalyOf(report);
  const place = anomaly ?? busiest(store, length, cause?.link, time);
  const view = anomaly ? around(busy, length, anomaly) : place;
  // A slow link says nothing about who comes last.
  if (cause?.link) return { ...view, item: null };
  // Who is late as a rule is latest anywhere in that time; else it is this operation.
  const isRule = cause?.kind === 'late-rank' && store.count <= MOST_LOADED;
  await (isRule ? store.needAll() : store.need(place.begin, place.end));
  const item = latest(store, isRule ? time : place, row);
  if (!item) return { ...view, item };
  const peers = peersOf(store, item);
  const within = { begin: Math.min(...peers.map(beginOf)), end: Math.max(...peers.map(endOf)) };
  return { ...around(busy, length, within), item };
}

/** @param {Report['causes'][0] | null} cause @param {Span} busy @returns {Span} */
const timeOfCause = (cause, { begin, end }) =>
  ({ begin: Math.max(begin, cause?.since_ns ?? 0), end: Math.min(end, cause?.until_ns ?? Infinity) });

/** The time of what did not end. @param {Store} store @param {Model['hang']} hang @returns {Moment | null} */
function hangOf({ timeline: { begin_ns: from, duration_ns: end } }, hang) {
  const waits = (hang?.communicators ?? []).flatMap(({ sequences }) => sequences.map((one) => one.waited_ns ?? 0));
  const longest = Math.max(0, ...waits);
  return longest === 0 ? null : { begin: Math.max(from, end - longest * 1.08), end, item: null };
}

/** The worst case of what the verdict speaks of, if it is one of the anomalies. @param {Report} report
 * @returns {Span | null} */
function anomalyOf({ anomalies, causes: [cause] }) {
  const found = anomalies.find(({ kind, rank }) => !cause || (kind === cause.kind && rank === cause.rank));
  return found ? { begin: found.start_ns, end: found.end_ns } : null;
}

/** A view of an operation with some others. @param {Span} busy @param {number} length @param {Span} within */
function around(busy, length, within) {
  const whole = within.end - within.begin;
  const half = Math.max(whole * ROOM.least, Math.min(length, whole * ROOM.most)) / 2;
  const middle = (within.begin + within.end) / 2;
  return half * 4 > busy.end - busy.begin ? busy : { begin: middle - half, end: middle + half };
}

/**
 * The time of this length in which ranks waited most, or moved bytes for longest.
 * @param {Store} store @param {number} length @param {unknown} link Whether a link is slow @param {Span} within
 * @returns {Span}
 */
function busiest(store, length, link, { begin, end }) {
  const { begin_ns: origin, rows, overview: { bin_ns: bin, bins } } = store.timeline;
  const sums = rows.slice(0, 256).map((_, row) => store.sumsOf(row)[link ? 'transfer' : 'waiting']);
  const wide = Math.max(1, Math.min(bins, Math.round(length / bin)));
  const last = Math.min(bins - wide, Math.floor((end - origin) / bin) - wide);
  const first = Math.max(0, Math.floor((begin - origin) / bin));
  // Where nothing is known of waiting: the middle.
  let [best, most] = [Math.max(first, Math.floor((first + last) / 2)), 0];
  for (let at = first; at <= last; at++) {
    const waiting = sums.reduce((sum, row) => sum + row[at + wide] - row[at], 0);
    if (waiting > most * 1.0001) [best, most] = [at, waiting];
  }
  const middle = origin + (best + wide / 2) * bin;
  return { begin: middle - length / 2, end: middle + length / 2 };
}

const timeOf = (/** @type {Item} */ item) => endOf(item) - beginOf(item);

/**
 * The operation to which a rank came latest. The longer others are in it than the rank, the longer they waited for it,
 * also where clocks do not tell.
 * @param {Store} store @param {Span} span @param {number | null} row Of the rank; null: of whoever was last
 * @returns {Item | null}
 */
export function latest(store, { begin, end }, row) {
  const groups = /** @type {Map<number, Item[]>} */ (new Map());
  const single = /** @type {Item[]} */ ([]);
  store.timeline.locations.forEach(({ kind }, location) => {
    if (kind !== 'operation') return;
    store.each(location, begin, end, (events, at) => {
      const instance = events.instance[at];
      const group = instance < 0 ? single : groups.get(instance) ?? [];
      // To the first, ranks come when they are connected.
      if (events.sequence[at] !== 0) group.push({ events, at });
      if (instance >= 0) groups.set(instance, group);
    });
  });
  let found = /** @type {{ late: number, item: Item } | null} */ (null);
  for (const all of groups.values()) {
    const item = row === null ? all.reduce((a, b) => (timeOf(b) < timeOf(a) ? b : a)) :
      all.find((one) => locationOf(store, one).row === row);
    if (!item || all.length < 2 || item.events.waiting[item.at] > 0) continue;
    const late = median(all.filter((one) => one !== item).map(timeOf)) - timeOf(item);
    if (late > (found?.late ?? 0)) found = { late, item };
  }
  return found?.item ?? (row === null ? null : latestMessage(store, single, row));
}

/** Of sends and receives, which name no common operation: what this rank began last before the longest that others
 * were in had ended. @param {Store} store @param {Item[]} all @param {number} row @returns {Item | null} */
function latestMessage(store, all, row) {
  const own = all.filter((item) => locationOf(store, item).row === row);
  let found = /** @type {{ late: number, item: Item } | null} */ (null);
  for (const other of all) {
    if (locationOf(store, other).row === row || timeOf(other) <= (found?.late ?? 0)) continue;
    const before = own.filter((item) => beginOf(item) < endOf(other) && endOf(item) >= endOf(other));
    const item = before.sort((a, b) => beginOf(b) - beginOf(a))[0];
    const late = item ? beginOf(item) - beginOf(other) : 0;
    if (late > (found?.late ?? 0)) found = { late, item };
  }
  return found?.item ?? null;
}

/** What was in progress when the others waited for an operation. @param {Store} store @param {Item} item */
function peersOf(store, item) {
  const { peers } = related(store, item);
  return peers.length > 1 ? peers : [item, ...longestBefore(store, item)];
}

/** What another rank was in for longest when an operation that no instance joins to others began.
 * @param {Store} store @param {Item} item @returns {Item[]} */
function longestBefore(store, item) {
  const { row } = locationOf(store, item);
  const found = /** @type {Item[]} */ ([]);
  store.timeline.locations.forEach(({ kind, row: other }, location) => {
    if (kind !== 'operation' || other === row) return;
    store.each(location, beginOf(item), beginOf(item), (events, at) => found.push({ events, at }));
  });
  return found.sort((a, b) => beginOf(a) - beginOf(b)).slice(0, 1);
}

/** What an operation shows, in one sentence. @param {Store} store @param {Item} item */
export function sentenceOf(store, item) {
  const { peers, last } = related(store, item);
  const nameOf = (/** @type {Item} */ one) => store.timeline.rows[locationOf(store, one).row].name;
  const name = capital(nameOf(item));
  const others = peers.filter((peer) => peer.at !== item.at || peer.events !== item.events);
  if (last && last.at === item.at && last.events === item.events) {
    const waited = others.reduce((sum, { events, at }) => sum + Math.max(0, events.waiting[at]), 0);
    const [after, typical] = [Math.max(...others.map(beginOf)), median(others.map(beginOf))]
      .map((begin) => beginOf(last) - begin);
    // Where several are late, the others come long before them.
    const how = after * 2 > typical ? `${duration(after)} after the others` :
      `last, ${duration(after)} after the one before it and ${duration(typical)} after the median of the others,`;
    return html`<b>${name} comes ${how} to ${fullName(store, last)}; they wait ${duration(waited)} in total.</b>`;
  }
  if (others.length > 0) {
    return html`<b>${name} is in ${fullName(store, item)} for ${duration(timeOf(item))}, the median of the others for ${
      duration(median(others.map(timeOf)))}: who is in it shortest came last.</b>`;
  }
  const [other] = longestBefore(store, item);
  return other ? html`<b>${name} begins ${fullName(store, item)} when ${nameOf(other)} has been in ${
    fullName(store, other)} for ${duration(beginOf(item) - beginOf(other))}.</b>` : null;
}
