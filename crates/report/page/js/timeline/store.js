// What the timeline shows: the overview of all ranks, and the events of those chunks that were looked at.

import { decodeChunk, inflate } from '#page/encoding';
import { operationName } from '#page/format';

/** @typedef {import('../../model').Timeline} Timeline */
/** @typedef {import('../../model').Location} Location */
/** @typedef {import('#page/encoding').Events} Events */

/** An event of the timeline. @typedef {{ events: Events, at: number }} Item */

/** More events than this are not looked at together: the overview stands for them. */
const MOST_EVENTS = 300_000;

/** More events than this are not loaded together. */
export const MOST_LOADED = 2_000_000;

/** Sums over the bins of a row up to each bin. @typedef {{ transfer: Float64Array, waiting: Float64Array }} Sums */

export class Store {
  /**
   * @param {Timeline} timeline
   * @param {(id: string) => string | null} text The data elements of the page
   * @param {() => void} loaded Is called when more events are there
   * @param {Map<string, number>} [hung] Operations that did not end, see `notEnded`
   */
  constructor(timeline, text, loaded, hung = new Map()) {
    this.timeline = timeline;
    this.hung = hung;
    this.text = text;
    this.loaded = loaded;
    /** @type {Map<number, Promise<boolean>>} */
    this.loading = new Map();
    /** @type {(Events | undefined)[]} */
    this.chunks = timeline.chunks.map(() => undefined);
    let first = 0;
    this.firsts = timeline.chunks.map(({ events }) => (first += events) - events);
    this.count = first;
    /** @type {Uint8Array} */
    this.cells = new Uint8Array();
    /** @type {Map<number, Sums>} */
    this.sums = new Map();
    /** @type {Location[][]} */
    this.byRow = timeline.rows.map(() => []);
    const isUnfinished = (/** @type {[string, unknown][]} */ set) =>
      set.some(([name, value]) => name === 'nccl.unfinished' && value !== 0);
    this.unfinished = new Set(timeline.attributes.flatMap((set, at) => (isUnfinished(set) ? [at] : [])));
    timeline.locations.forEach((location, index) => this.byRow[location.row]?.push({ ...location, id: index }));
  }

  /** Whether an event had not ended when the recording did. @param {Events} events @param {number} at */
  isUnfinished(events, at) {
    return this.unfinished.has(events.attributes[at]);
  }

  /** The colour that the program gave a range, without its opacity. @param {Events} events @param {number} at */
  colourOf(events, at) {
    const colour = this.attribute(events, at, 'nvtx.color');
    return typeof colour === 'number' ? `#${(colour >>> 0).toString(16).padStart(8, '0').slice(2)}` : null;
  }

  /** @param {Events} events @param {number} at @param {string} wanted */
  attribute(events, at, wanted) {
    const set = events.attributes[at] < 0 ? [] : this.timeline.attributes[events.attributes[at]];
    return set.find(([name]) => name === wanted)?.[1];
  }

  async open() {
    const text = this.text('overview');
    if (text) this.cells = await inflate(text);
    if (this.hung.size > 0) await this.needAll();
  }

  /** From the first operation to the last, with some room; the whole run where there is none. */
  busy() {
    const { begin_ns: from, duration_ns: whole, overview: { bin_ns: length, bins }, rows } = this.timeline;
    let [first, last] = [bins, -1];
    for (let cell = 0; cell < 2 * rows.length * bins; cell++) {
      if (this.cells[cell] > 0) {
        first = Math.min(first, cell % bins);
        last = Math.max(last, cell % bins);
      }
    }
    const room = Math.max(0, last - first) * 0.02 + 1;
    if (last < 0) return { begin: from, end: Math.max(from + 1, whole) };
    const [begin, end] = [first - room, last + 1 + room].map((bin) => from + bin * length);
    return { begin: Math.max(from, begin), end: Math.min(whole, end) };
  }

  /** @param {number} begin @param {number} end */
  chunksIn(begin, end) {
    const found = [];
    for (let at = 0; at < this.timeline.chunks.length; at++) {
      const chunk = this.timeline.chunks[at];
      if (chunk.begin_ns <= end && chunk.end_ns >= begin && chunk.events > 0) found.push(at);
    }
    return found;
  }

  /** Whether a view shows events, not the overview. @param {number} begin @param {number} end */
  isDetailed(begin, end) {
    return this.eventsIn(begin, end) <= MOST_EVENTS;
  }

  /** @param {number} begin @param {number} end */
  eventsIn(begin, end) {
    return this.chunksIn(begin, end).reduce((sum, at) => {
      const { begin_ns: from, end_ns: to, events } = this.timeline.chunks[at];
      const share = to > from ? (Math.min(end, to) - Math.max(begin, from)) / (to - from) : 1;
      return sum + events * Math.min(1, Math.max(0.02, share));
    }, 0);
  }

  /** Whether the chunks have all events of a view. @param {number} begin @param {number} end */
  isComplete(begin, end) {
    let at = Math.max(begin, this.timeline.begin_ns);
    for (const [from, to] of this.timeline.complete) {
      if (from <= at && to >= at) at = to + 1;
    }
    return at > Math.min(end, this.timeline.duration_ns);
  }

  /** About how many events begin in a view, in the page or not. @param {number} begin @param {number} end */
  allIn(begin, end) {
    const { begin_ns: from, duration_ns: to, all } = this.timeline;
    const length = Math.max(1, to - from) / all.length;
    return all.reduce((sum, events, part) => {
      const low = from + part * length;
      return sum + events * Math.max(0, Math.min(end, low + length) - Math.max(begin, low)) / length;
    }, 0);
  }

  /** Times of a view whose events are nowhere. @param {number} begin @param {number} end */
  absent(begin, end) {
    return this.chunksIn(begin, end).map((at) => this.timeline.chunks[at]).filter(({ at }) => at === 'none');
  }

  /** Whether all events of a time are there, in the page and loaded. @param {number} begin @param {number} end */
  isLoaded(begin, end) {
    return this.isComplete(begin, end) && this.chunksIn(begin, end).every((at) => this.chunks[at] !== undefined);
  }

  /** Loads the events of a time. @param {number} begin @param {number} end */
  async need(begin, end) {
    const wanted = this.chunksIn(begin, end).filter((at) => typeof this.chunks[at] !== 'object');
    const got = await Promise.all(wanted.map((at) => this.load(at)));
    if (got.some(Boolean)) this.loaded();
  }

  /** Loads all events of the page itself. */
  async needAll() {
    for (const [at, { at: where, events }] of this.timeline.chunks.entries()) {
      if (where === 'page' && events > 0) await this.load(at);
    }
    this.loaded();
  }

  /** Loads a chunk once; false where it was there or is nowhere. @param {number} at @returns {Promise<boolean>} */
  load(at) {
    if (this.chunks[at] || this.timeline.chunks[at].at === 'none') return Promise.resolve(false);
    const loading = this.loading.get(at) ?? this.fetch(at).finally(() => this.loading.delete(at));
    this.loading.set(at, loading);
    return loading;
  }

  /** @param {number} at @returns {Promise<boolean>} */
  async fetch(at) {
    const { at: where, begin_ns: origin } = this.timeline.chunks[at];
    try {
      const text = where === 'page' ? this.text(`chunk-${at}`) : await chunkFile(this.timeline.folder ?? '.', at);
      if (text === null) return false;
      const events = decodeChunk(await inflate(text), this.firsts[at], origin);
      if (this.hung.size > 0) this.prolong(events, at);
      this.chunks[at] = events;
    } catch {
      // A file that was not copied along with the page: its time is shown as shares.
      this.timeline.chunks[at].at = 'none';
    }
    return true;
  }

  /** What a hang kept from ending reaches to the end of the recording. @param {Events} events @param {number} chunk */
  prolong(events, chunk) {
    const { attributes, chunks, duration_ns: end, locations, names } = this.timeline;
    for (const [location, [from, to]] of events.runs) {
      const { id, kind } = locations[location];
      if (kind !== 'operation') continue;
      let isProlonged = false;
      for (let at = from; at < to; at++) {
        const first = this.hung.get(`${id} ${operationName(names[events.name[at]])}`) ?? Infinity;
        if (events.sequence[at] >= first && this.attribute(events, at, 'nccl.timing') === 'enqueue') {
          const set = attributes[events.attributes[at]];
          events.end[at] = end;
          events.attributes[at] = attributes.push([...set, ['nccl.unfinished', 1]]) - 1;
          this.unfinished.add(events.attributes[at]);
          isProlonged = true;
        }
        if (isProlonged) events.reach[at] = end;
      }
      if (isProlonged) chunks[chunk].end_ns = end;
    }
  }

  /**
   * The events of a location in a time, by begin.
   * @param {number} location
   * @param {number} begin
   * @param {number} end
   * @param {(events: Events, at: number) => void} each
   */
  each(location, begin, end, each) {
    for (const index of this.chunksIn(begin, end)) {
      const events = this.chunks[index];
      if (events === undefined) continue;
      const run = events.runs.get(location);
      if (!run) continue;
      for (let at = firstReaching(events, run, begin); at < run[1] && events.begin[at] <= end; at++) {
        if (events.end[at] >= begin) each(events, at);
      }
    }
  }

  /** The event of this number among all. @param {number} row @returns {Item | null} */
  byNumber(row) {
    if (row < 0) return null;
    let at = this.firsts.length - 1;
    while (at > 0 && this.firsts[at] > row) at--;
    const events = this.chunks[at];
    return events ? { events, at: row - events.first } : null;
  }

  /**
   * All loaded events of these locations.
   * @param {(location: Location) => boolean} wanted
   * @returns {Generator<Item>}
   */
  *all(wanted) {
    for (const events of this.chunks) {
      if (events === undefined) continue;
      for (const [location, [from, to]] of events.runs) {
        if (!wanted(this.timeline.locations[location])) continue;
        for (let at = from; at < to; at++) yield { events, at };
      }
    }
  }

  /** Of a row, how much of the time until each bin was transfer and waiting. @param {number} row @returns {Sums} */
  sumsOf(row) {
    const known = this.sums.get(row);
    if (known) return known;
    const { bins } = this.timeline.overview;
    const rows = this.timeline.rows.length;
    const sums = { transfer: new Float64Array(bins + 1), waiting: new Float64Array(bins + 1) };
    for (let bin = 0; bin < bins; bin++) {
      sums.transfer[bin + 1] = sums.transfer[bin] + (this.cells[row * bins + bin] ?? 0) / 255;
      sums.waiting[bin + 1] = sums.waiting[bin] + (this.cells[(rows + row) * bins + bin] ?? 0) / 255;
    }
    this.sums.set(row, sums);
    return sums;
  }

  /** The function that fills most of a bin. @param {number} row @param {number} bin */
  functionOf(row, bin) {
    const { rows, overview: { bins } } = this.timeline;
    return this.cells[(2 * rows.length + row) * bins + bin] ?? 0;
  }
}

/** @param {Events} events @param {[number, number]} run @param {number} begin */
function firstReaching(events, [from, to], begin) {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events.reach[middle] < begin) low = middle + 1;
    else high = middle;
  }
  return low;
}

const waiting = /** @type {Map<number, (text: string) => void>} */ (new Map());

/**
 * A chunk beside the page: a script, because pages from files may not fetch.
 * @param {string} folder
 * @param {number} at
 */
function chunkFile(folder, at) {
  /** @type {any} */ (globalThis).nccl_otf2_chunk = (/** @type {number} */ index, /** @type {string} */ text) =>
    waiting.get(index)?.(text);
  return new Promise((/** @type {(text: string) => void} */ resolve, reject) => {
    waiting.set(at, resolve);
    const script = document.createElement('script');
    script.src = `${folder}/chunk-${at}.js`;
    script.onerror = () => reject(new Error(`no chunk ${at}`));
    script.onload = () => script.remove();
    document.head.append(script);
  });
}
