// The moment that matters: what the verdict speaks of, at its worst.

import { capital, duration } from '#page/format';
import { html } from '#page/html';
import { beginOf, fullName, locationOf, related } from '#page/timeline/related';

/** @typedef {import('../../model').Report} Report */
/** @typedef {import('../../model').Model} Model */
/** @typedef {import('#page/timeline/store').Store} Store */
/** @typedef {import('#page/timeline/store').Item} Item */

/** `within`: where the worst operation is.
 * @typedef {{ begin: number, end: number, within: { begin: number, end: number } }} Moment */

/** How many collectives a view of the moment has, about. */
const COLLECTIVES = 4;

/**
 * The time to show at first; null where nothing stands out.
 * @param {Report} report @param {Store} store @param {Model['hang']} hang
 * @returns {Moment | null}
 */
export function momentOf({ verdict, causes, anomalies, run }, store, hang) {
  const { begin_ns: from, duration_ns: to } = store.timeline;
  const cause = causes[0] ?? null;
  if (verdict.finding === 'unfinished') {
    const waits = (hang?.communicators ?? []).flatMap(({ sequences }) => sequences.map((one) => one.waited_ns ?? 0));
    const longest = Math.max(0, ...waits);
    return longest === 0 ? null : spanOf(Math.max(from, to - longest * 1.08), to);
  }
  if (!cause && verdict.finding !== 'pauses') return null;
  const busy = store.busy();
  const length = (busy.end - busy.begin) / Math.max(1, run.instances) * COLLECTIVES;
  const worst = anomalies.find(({ kind, rank }) => !cause || (kind === cause.kind && rank === cause.rank));
  if (worst) return around(busy, length, { begin: worst.start_ns, end: worst.end_ns });
  if (!cause || length * 2 > busy.end - busy.begin) return spanOf(busy.begin, busy.end);
  const middle = busiest(store, length, cause.link ? 'transfer' : 'waiting',
    { begin: Math.max(busy.begin, cause.since_ns ?? 0), end: Math.min(busy.end, cause.until_ns ?? busy.end) });
  return spanOf(middle - length / 2, middle + length / 2);
}

/** A view of an operation with some others. @param {{ begin: number, end: number }} busy @param {number} least
 * @param {{ begin: number, end: number }} within */
function around(busy, least, within) {
  const [middle, length] = [(within.begin + within.end) / 2, Math.max(least, (within.end - within.begin) * 1.5)];
  return length * 2 > busy.end - busy.begin ? spanOf(busy.begin, busy.end, within) :
    spanOf(middle - length / 2, middle + length / 2, within);
}

/** @param {number} begin @param {number} end @param {{ begin: number, end: number } | null} [within]
 * @returns {Moment} */
const spanOf = (begin, end, within) => ({ begin, end, within: within ?? { begin, end } });

/**
 * The middle of the time of this length in which ranks waited most, or moved bytes for longest.
 * @param {Store} store @param {number} length @param {'waiting' | 'transfer'} what
 * @param {{ begin: number, end: number }} within
 */
function busiest(store, length, what, { begin, end }) {
  const { begin_ns: origin, rows, overview: { bin_ns: bin, bins } } = store.timeline;
  const sums = rows.slice(0, 256).map((_, row) => store.sumsOf(row)[what]);
  const wide = Math.max(1, Math.min(bins, Math.round(length / bin)));
  const last = Math.min(bins - wide, Math.floor((end - origin) / bin) - wide);
  const first = Math.max(0, Math.floor((begin - origin) / bin));
  // Where nothing is known of waiting: the middle.
  let [best, most] = [Math.max(first, Math.floor((first + last) / 2)), 0];
  for (let at = first; at <= last; at++) {
    const waiting = sums.reduce((sum, row) => sum + row[at + wide] - row[at], 0);
    if (waiting > most * 1.0001) [best, most] = [at, waiting];
  }
  return origin + (best + wide / 2) * bin;
}

/**
 * The operation in a time for which ranks waited longest, on the rank that they waited for.
 * @param {Store} store @param {{ begin: number, end: number }} span @param {number | null} row Of the rank, if known
 * @returns {Item | null}
 */
export function worstIn(store, { begin, end }, row) {
  const sums = /** @type {Map<number, { sum: number, item: Item }>} */ (new Map());
  store.timeline.locations.forEach(({ kind }, location) => {
    if (kind !== 'operation') return;
    store.each(location, begin, end, (events, at) => {
      const isWithin = events.begin[at] >= begin && events.end[at] <= end;
      if (!isWithin || events.waiting[at] <= 0 || events.instance[at] < 0) return;
      const sum = sums.get(events.instance[at]) ?? { sum: 0, item: { events, at } };
      sum.sum += events.waiting[at];
      sums.set(events.instance[at], sum);
    });
  });
  for (const { item } of [...sums.values()].sort((a, b) => b.sum - a.sum).slice(0, 32)) {
    const { last } = related(store, item);
    if (last && (row === null || locationOf(store, last).row === row)) return last;
  }
  return null;
}

/** What an operation shows, in one sentence. @param {Store} store @param {Item} item */
export function sentenceOf(store, item) {
  const { peers, last } = related(store, item);
  if (!last) return null;
  const others = peers.filter((peer) => peer !== last);
  const waited = others.reduce((sum, { events, at }) => sum + Math.max(0, events.waiting[at]), 0);
  return html`<b>${capital(store.timeline.rows[locationOf(store, last).row].name)} comes ${
    duration(beginOf(last) - Math.max(...others.map(beginOf)))} after the others to ${fullName(store, last)}; they
    wait ${duration(waited)} in total.</b>`;
}
