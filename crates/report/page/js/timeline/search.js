// Words and conditions that choose events.

/** @typedef {import('../../model').Timeline} Timeline */
/** @typedef {import('#page/encoding').Events} Events */

const UNITS = /** @type {Record<string, number>} */ ({ ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 });

/** @typedef {(events: Events, at: number) => boolean} Matcher */

/**
 * Of a query such as `allreduce world rank:3 wait>5ms dur>200us size>=1MiB seq:12`; null where it asks nothing.
 * @param {string} query
 * @param {Timeline} timeline
 * @returns {Matcher | null}
 */
export function matcher(query, timeline) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const conditions = words.map((word) => condition(word, timeline));
  return (events, at) => conditions.every((holds) => holds(events, at));
}

/** @param {string} word @param {Timeline} timeline @returns {Matcher} */
function condition(word, timeline) {
  const compared = /^(wait|dur)(>=?|<=?)([\d.]+)(ns|us|µs|ms|s)?$/.exec(word);
  if (compared) {
    const [, what, how, amount, unit] = compared;
    const limit = Number(amount) * UNITS[unit ?? 'us'];
    const value = (/** @type {Events} */ events, /** @type {number} */ at) =>
      (what === 'wait' ? events.waiting[at] : events.end[at] - events.begin[at]);
    return how.startsWith('>') ? (events, at) => value(events, at) >= limit : (events, at) =>
      value(events, at) >= 0 && value(events, at) <= limit;
  }
  const sequence = /^seq:(\d+)$/.exec(word);
  if (sequence) return (events, at) => events.sequence[at] === Number(sequence[1]);
  const rank = /^(rank|host):(.+)$/.exec(word);
  if (rank) {
    const wanted = new Set(timeline.rows.flatMap((row, index) => {
      const name = rank[1] === 'rank' ? row.name.replace(/^rank /, '') : timeline.hosts[row.host];
      return name.toLowerCase() === rank[2] ? [index] : [];
    }));
    return (events, at) => wanted.has(timeline.locations[events.location[at]].row);
  }
  return text(word, timeline);
}

/** @param {string} word @param {Timeline} timeline @returns {Matcher} */
function text(word, timeline) {
  const set = (/** @type {string[]} */ texts) => texts.map((one) => one.toLowerCase().includes(word));
  const names = set(timeline.names);
  const locations = set(timeline.locations.map(({ name }) => name));
  const attributes = set(timeline.attributes.map((pairs) => pairs.map(([, value]) => value).join(' ')));
  return (events, at) => names[events.name[at]] || locations[events.location[at]] ||
    (events.attributes[at] >= 0 && attributes[events.attributes[at]]);
}
