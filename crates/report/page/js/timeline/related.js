// What belongs to an event: the same operation on other ranks, its call, its launch, its network operations.

import { numbered, operationName } from '#page/format';
import { LAUNCH } from '#page/timeline/palette';

/** @typedef {import('#page/timeline/store').Store} Store */
/** @typedef {import('#page/timeline/store').Item} Item */

/**
 * @typedef {object} Related
 * @property {Item | null} operation The operation that the event is or belongs to
 * @property {Item[]} peers The operation on all its ranks, by rank
 * @property {Item | null} call
 * @property {Item | null} launch
 * @property {Item[]} work Transfers, channels and kernels of the operation, by begin
 * @property {Item | null} last The last to arrive; none of what is not compared
 */

export const numberOf = (/** @type {Item} */ { events, at }) => events.first + at;
export const beginOf = (/** @type {Item} */ { events, at }) => events.begin[at];
export const endOf = (/** @type {Item} */ { events, at }) => events.end[at];

/** Names an event in the page's address. @param {Item} item */
export const linkTo = (item) => `#at=${beginOf(item)}.${item.events.location[item.at]}`;

/** @param {Store} store @param {Item} item */
export const locationOf = (store, item) => store.timeline.locations[item.events.location[item.at]];

/** @param {Store} store @param {Item} item */
export const nameOf = (store, item) => store.timeline.names[item.events.name[item.at]];

/** The name with its number: "step 65", "ncclAllReduce seq 12". @param {Store} store @param {Item} item */
export function fullName(store, item) {
  const name = nameOf(store, item);
  const step = name.includes('#') ? store.attribute(item.events, item.at, 'nvtx.number') : undefined;
  if (step !== undefined) return name.replace('#', String(step));
  const isOperation = locationOf(store, item).kind === 'operation';
  return isOperation ? numbered(operationName(name), item.events.sequence[item.at]) : name;
}

/** @param {Store} store @param {Item} item @returns {Item[]} */
function ancestors(store, item) {
  const found = [];
  let next = store.byNumber(item.events.parent[item.at]);
  while (next && found.length < 8) {
    found.push(next);
    next = store.byNumber(next.events.parent[next.at]);
  }
  return found;
}

/** @param {Store} store @param {Item} item @returns {Related} */
export function related(store, item) {
  const up = ancestors(store, item);
  const isKind = (/** @type {string} */ kind) => (/** @type {Item} */ one) => locationOf(store, one).kind === kind;
  const operation = [item, ...up].find(isKind('operation')) ?? operationOf(store, item);
  const above = operation ? ancestors(store, operation) : [];
  const call = above.find(isKind('call')) ?? (isKind('call')(item) ? item : null);
  const peers = operation ? peersOf(store, operation) : [];
  return {
    operation, peers, call,
    launch: call ? launchOf(store, call, [...above, ...ancestors(store, call)]) : null,
    work: operation ? workOf(store, operation) : [],
    last: lastOf(peers),
  };
}

/**
 * Whom the others waited for: who arrives where a waiting one stops waiting.
 * @param {Item[]} peers
 * @returns {Item | null}
 */
function lastOf(peers) {
  const waiting = peers.find(({ events, at }) => events.waiting[at] > 0);
  if (!waiting) return null;
  const arrival = beginOf(waiting) + waiting.events.waiting[waiting.at];
  return peers.find((item) => beginOf(item) === arrival) ?? null;
}

/** The operation whose call this is. @param {Store} store @param {Item} call @returns {Item | null} */
function operationOf(store, call) {
  const { row, kind } = locationOf(store, call);
  if (kind !== 'call') return null;
  const number = numberOf(call);
  const siblings = new Set([number, call.events.parent[call.at]]);
  let found = /** @type {Item | null} */ (null);
  for (const { id, kind: other } of store.byRow[row]) {
    if (other !== 'operation') continue;
    store.each(id, beginOf(call), endOf(call) + 1e9, (events, at) => {
      if (!found && siblings.has(events.parent[at])) found = { events, at };
    });
  }
  return found;
}

/** @param {Store} store @param {Item} operation @returns {Item[]} */
function peersOf(store, operation) {
  const instance = operation.events.instance[operation.at];
  if (instance < 0) return [operation];
  const found = [];
  for (const index of store.chunksIn(beginOf(operation), endOf(operation))) {
    const events = store.chunks[index];
    if (!events) continue;
    for (let at = events.instance.indexOf(instance); at >= 0; at = events.instance.indexOf(instance, at + 1)) {
      found.push({ events, at });
    }
  }
  return found.sort((a, b) => locationOf(store, a).row - locationOf(store, b).row);
}

/** @param {Store} store @param {Item} call @param {Item[]} above @returns {Item | null} */
function launchOf(store, call, above) {
  // A group of one call is not shown.
  const parents = new Set([numberOf(call), call.events.parent[call.at], ...above.map(numberOf)]);
  const end = Math.max(endOf(call), ...above.map(endOf));
  let found = /** @type {Item | null} */ (null);
  for (const { id, kind } of store.byRow[locationOf(store, call).row]) {
    if (kind !== 'call') continue;
    store.each(id, beginOf(call), end, (events, at) => {
      const isLaunch = store.timeline.names[events.name[at]] === LAUNCH;
      if (!found && isLaunch && events.begin[at] >= beginOf(call) && parents.has(events.parent[at])) {
        found = { events, at };
      }
    });
  }
  return found;
}

/** @param {Store} store @param {Item} operation @returns {Item[]} */
function workOf(store, operation) {
  const number = numberOf(operation);
  const found = /** @type {Item[]} */ ([]);
  for (const { id, kind } of store.byRow[locationOf(store, operation).row]) {
    if (kind !== 'transfer' && kind !== 'channel' && kind !== 'kernel') continue;
    store.each(id, beginOf(operation), endOf(operation), (events, at) => {
      if (events.parent[at] === number) found.push({ events, at });
    });
  }
  return found.sort((a, b) => beginOf(a) - beginOf(b));
}

/**
 * The operation of an anomaly: on the rank that it names, else on the first. Its times are those of the first arrival
 * and the last end, and its location is one of its ranks'.
 * @param {Store} store @param {import('../../model').Anomaly} anomaly @param {string | undefined} name Of the function
 * @returns {Promise<Item | null>}
 */
export async function anomalyIn(store, { rank, location: id, sequence, start_ns: begin, end_ns: end }, name) {
  await store.need(begin, end);
  let found = /** @type {Item | null} */ (null);
  store.timeline.locations.forEach((location, at) => {
    if (location.kind !== 'operation' || location.id !== id) return;
    store.each(at, begin, end, (events, index) => {
      const isIt = (sequence === null || events.sequence[index] === sequence) &&
        operationName(store.timeline.names[events.name[index]]) === name;
      if (!found && isIt && events.begin[index] >= begin && events.end[index] <= end) found = { events, at: index };
    });
  });
  if (!found) return null;
  const peers = peersOf(store, found);
  return peers.find((item) => store.timeline.rows[locationOf(store, item).row].rank === rank) ??
    peers.find((item) => beginOf(item) === begin) ?? found;
}
