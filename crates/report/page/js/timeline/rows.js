// The rows of the timeline: hosts, ranks, and in an opened rank its locations.

/** @typedef {import('../../model').Timeline} Timeline */
/** @typedef {import('../../model').Location} Location */
/** @typedef {Location['kind']} LocationKind */
/** @typedef {import('#page/timeline/store').Store} Store */

/**
 * @typedef {object} Row
 * @property {'host' | 'rank' | 'locations' | 'more'} what `more`: opens or closes the rest of a rank's rows
 * @property {number} y
 * @property {number} height
 * @property {string} label
 * @property {number} host
 * @property {number} row Index in the timeline's rows; of a host that of its first rank
 * @property {LocationKind} [kind]
 * @property {number[]} locations One below the other
 * @property {number} lane Height of each
 * @property {boolean} open
 */

const HEIGHTS = { host: 18, rank: 22 };
/** What an opened rank shows. */
const FIRST = /** @type {[string, LocationKind[]][]} */ ([['ranges', ['range']], ['calls', ['call']],
  ['', ['operation']], ['network', ['transfer']], ['kernels', ['kernel', 'channel']]]);
/** What it shows on demand: each channel and peer, and what is below them. */
const MORE = /** @type {LocationKind[]} */ (['transfer', 'channel', 'step', 'proxy', 'other']);
/** Height of the locations that have a row together, at most. */
const TOGETHER = 40;
const LANES = /** @type {Record<LocationKind, number>} */ (
  { range: 13, kernel: 11, call: 12, operation: 15, channel: 4, transfer: 4, step: 4, proxy: 8, other: 8 });

/** What locations that are shown together have in common. @param {Location} location */
function groupOf({ name, kind }) {
  const base = name.replace(/ #\d+$/, '');
  if (kind === 'channel') return base.replace(/ ch\d+$/, ' channels');
  if (kind === 'transfer') return base.replace(/ ch\d+/, '');
  return kind === 'step' ? base.replace(/ ch\d+/, '').replace(/ s\d+.*$/, ' steps') : base;
}

/** As short as the gutter: the row says which rank. @param {string} group @param {LocationKind} kind */
function label(group, kind) {
  const short = group.replace(/^NCCL /, '').replace(/ rank \d+(\/\d+)?( operations)?$/, '')
    .replace(/^net /, '').replace(/ r\d+ /, ' ').replace(/0x([0-9a-f]{4})[0-9a-f]+/, '0x$1…');
  if (kind === 'range') return short.replace(/^ranges of API thread/, 'ranges').replace(/^NVTX /, 'ranges, ');
  return kind === 'call' ? short.replace(/^API thread/, 'calls').replace(/^CUDA callback thread/, 'callbacks') : short;
}

/**
 * @param {Timeline} timeline
 * @param {Store} store
 * @param {Set<number>} closedHosts
 * @param {Set<number>} openRanks
 * @param {Set<number>} allOf Ranks with all their rows
 * @returns {{ rows: Row[], height: number }}
 */
export function layout(timeline, store, closedHosts, openRanks, allOf) {
  const rows = /** @type {Row[]} */ ([]);
  let y = 0;
  const push = (/** @type {Omit<Row, 'y'>} */ row) => {
    rows.push({ ...row, y });
    y += row.height;
  };
  timeline.hosts.forEach((name, host) => {
    const ranks = timeline.rows.flatMap((row, index) => (row.host === host ? [index] : []));
    if (ranks.length === 0) return;
    const open = !closedHosts.has(host);
    push({ what: 'host', height: HEIGHTS.host, label: open ? name : `${name}: ${ranks.length} ranks`, host,
      row: ranks[0], locations: [], lane: 0, open });
    if (!open) return;
    for (const row of ranks) {
      const isOpen = openRanks.has(row);
      const operations = store.byRow[row].filter(({ kind }) => kind === 'operation').map(({ id }) => id);
      push({ what: 'rank', height: HEIGHTS.rank, label: timeline.rows[row].name, host, row, locations: operations,
        lane: HEIGHTS.rank, open: isOpen });
      if (isOpen) inside(store.byRow[row], { host, row }, allOf.has(row), push);
    }
  });
  return { rows, height: y + 4 };
}

/**
 * @param {Location[]} locations
 * @param {{ host: number, row: number }} where
 * @param {boolean} all
 * @param {(row: Omit<Row, 'y'>) => void} push
 */
function inside(locations, where, all, push) {
  const together = (/** @type {string} */ text, /** @type {LocationKind} */ kind, /** @type {number[]} */ members) => {
    // Ranges have names to read.
    const room = kind === 'range' ? Infinity : Math.floor(TOGETHER / members.length);
    const lane = Math.max(2, Math.min(LANES[kind], room));
    const height = Math.max(14, lane * members.length + 3);
    push({ ...where, what: 'locations', kind, height, label: text, locations: members, lane, open: false });
  };
  const of = (/** @type {LocationKind[]} */ kinds) => locations.filter(({ kind }) => kinds.includes(kind));
  for (const [name, kinds] of FIRST) {
    // Of each communicator a row; what overlaps on it is on locations of its own.
    const groups = grouped(of(kinds), (location) => name || label(groupOf(location), location.kind));
    for (const [text, members] of groups) together(text, kinds[0], members);
  }
  if (of(MORE).length === 0) return;
  // A rank that has only threads of other tools has none of the rows above.
  if (of(FIRST.flatMap(([, kinds]) => kinds)).length > 0) {
    const text = all ? 'fewer rows' : 'more rows';
    push({ ...where, what: 'more', height: 16, label: text, locations: [], lane: 0, open: all });
    if (!all) return;
  }
  for (const kind of MORE) {
    for (const [group, members] of grouped(of([kind]), groupOf)) {
      const height = Math.max(LANES[kind] < 8 ? 14 : LANES[kind], LANES[kind] * members.length + 3);
      push({ ...where, what: 'locations', kind, height, label: label(group, kind), locations: members,
        lane: LANES[kind], open: false });
    }
  }
}

/** @param {Location[]} locations @param {(location: Location) => string} by @returns {Map<string, number[]>} */
function grouped(locations, by) {
  const groups = new Map();
  for (const location of locations) groups.set(by(location), [...(groups.get(by(location)) ?? []), location.id]);
  return groups;
}

/** The row at a height, and the location in it. @param {Row[]} rows @param {number} y */
export function rowAt(rows, y) {
  const row = rows.find((one) => y >= one.y && y < one.y + one.height);
  if (!row) return null;
  const lane = Math.floor((y - row.y - 1) / Math.max(1, row.lane));
  return { row, location: row.locations[Math.max(0, Math.min(row.locations.length - 1, lane))] };
}
