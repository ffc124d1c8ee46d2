// Compact data of the page: deflated, in base64; numbers as LEB128.

/** @param {string} base64 */
export async function inflate(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads one number after the other. Numbers stay exact up to 2^53. */
export class Varints {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new Error('the data of the page ends early');
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  /** A reader of the next bytes. @param {number} length */
  part(length) {
    const from = this.at;
    this.at += length;
    return new Varints(this.bytes.subarray(from, this.at));
  }
}

/** A signed number of zigzag encoding. @param {number} value */
export const signed = (value) => (value % 2 === 0 ? value / 2 : -(value + 1) / 2);

const COLUMNS = 9;

/**
 * The events of a chunk, sorted by location and begin. −1 stands for none.
 * @typedef {object} Events
 * @property {number} first Number of its first event among all events
 * @property {Map<number, [number, number]>} runs Events of each location: from, to
 * @property {Uint32Array} location
 * @property {Float64Array} begin
 * @property {Float64Array} end
 * @property {Float64Array} reach Latest end so far in the location
 * @property {Uint32Array} name
 * @property {Float64Array} waiting
 * @property {Int32Array} instance
 * @property {Int32Array} attributes
 * @property {Float64Array} parent Number of the parent among all events
 * @property {Float64Array} sequence
 */

/**
 * @param {Uint8Array} bytes
 * @param {number} first
 * @param {number} origin Where the times of the chunk begin
 * @returns {Events}
 */
export function decodeChunk(bytes, first, origin) {
  const reader = new Varints(bytes);
  const count = reader.next();
  const lengths = Array.from({ length: COLUMNS }, () => reader.next());
  const [runs, begins, spans, names, waits, instances, sets, parents, sequences] =
    lengths.map((length) => reader.part(length));
  /** @type {Events} */
  const events = {
    first,
    runs: new Map(),
    location: new Uint32Array(count),
    begin: new Float64Array(count),
    end: new Float64Array(count),
    reach: new Float64Array(count),
    name: new Uint32Array(count),
    waiting: new Float64Array(count),
    instance: new Int32Array(count),
    attributes: new Int32Array(count),
    parent: new Float64Array(count),
    sequence: new Float64Array(count),
  };
  let location = 0;
  for (let from = 0; from < count; ) {
    location += runs.next();
    const to = from + runs.next();
    events.runs.set(location, [from, to]);
    let begin = origin;
    let reach = 0;
    for (let at = from; at < to; at++) {
      begin += begins.next();
      const parent = parents.next();
      events.location[at] = location;
      events.begin[at] = begin;
      events.end[at] = begin + spans.next();
      events.reach[at] = reach = Math.max(reach, events.end[at]);
      events.name[at] = names.next();
      events.waiting[at] = waits.next() - 1;
      events.instance[at] = instances.next() - 1;
      events.attributes[at] = sets.next() - 1;
      events.parent[at] = parent === 0 ? -1 : first + at - signed(parent - 1);
      events.sequence[at] = sequences.next() - 1;
    }
    from = to;
  }
  return events;
}
