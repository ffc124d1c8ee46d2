// A synthetic job and its page, made as `nccl-otf2 report` makes it: a late rank, a slow pair, calls and transfers.

import { readdirSync, readFileSync } from 'node:fs';
import { deflateSync } from 'node:zlib';

const here = (/** @type {string} */ name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

const packed = (/** @type {Uint8Array} */ bytes) => deflateSync(bytes).toString('base64');

/** @param {number[]} values */
function varints(values) {
  const bytes = [];
  for (let value of values) {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
    bytes.push(value);
  }
  return bytes;
}

/**
 * An event before it is encoded; `parent` is its number among all events, −1 of none.
 * @typedef {{ location: number, begin: number, end: number, name: number, waiting: number, instance: number,
 *   attributes: number, parent: number, sequence: number }} Raw
 */

/** @param {Raw[]} events Sorted by location and begin @param {number} first @param {number} origin */
export function encodeChunk(events, first, origin) {
  const columns = Array.from({ length: 9 }, () => /** @type {number[]} */ ([]));
  let location = 0;
  for (let at = 0; at < events.length; ) {
    const count = events.filter((event) => event.location === events[at].location).length;
    columns[0].push(events[at].location - location, count);
    location = events[at].location;
    at += count;
  }
  events.forEach((event, at) => {
    const before = events[at - 1];
    const delta = first + at - event.parent;
    columns[1].push(event.begin - (before?.location === event.location ? before.begin : origin));
    columns[2].push(event.end - event.begin);
    columns[3].push(event.name);
    columns[4].push(event.waiting + 1);
    columns[5].push(event.instance + 1);
    columns[6].push(event.attributes + 1);
    columns[7].push(event.parent < 0 ? 0 : 1 + (delta >= 0 ? delta * 2 : -delta * 2 - 1));
    columns[8].push(event.sequence + 1);
  });
  const bytes = columns.map(varints);
  return Uint8Array.from([...varints([events.length, ...bytes.map((one) => one.length)]), ...bytes.flat()]);
}

/** The page of a model. @param {object} model @param {Map<string, Uint8Array>} blobs */
export function page(model, blobs) {
  const files = ['', 'timeline/'].flatMap((folder) => readdirSync(new URL(`../js/${folder}`, import.meta.url))
    .filter((name) => name.endsWith('.js')).map((name) => folder + name));
  const modules = files.map((name) => [`#page/${name.replace('.js', '')}`,
    `data:text/javascript;base64,${Buffer.from(here(`js/${name}`)).toString('base64')}`]);
  const data = [...blobs, ['model', new TextEncoder().encode(JSON.stringify(model))]].map(([id, bytes]) =>
    `<script type="text/plain" id="data-${id}">${packed(/** @type {Uint8Array} */ (bytes))}</script>`);
  const parts = { '/*{{style}}*/': here('vendor/uPlot.min.css') + here('page.css'), '<!--{{data}}-->': data.join('\n'),
    '/*{{uplot}}*/': here('vendor/uPlot.iife.min.js'), 
    '/*{{modules}}*/': JSON.stringify({ imports: Object.fromEntries(modules) }) };
  return Object.entries(parts).reduce((text, [mark, part]) => text.replace(mark, () => part), here('page.html'));
}

const QUANTILES = { count: 100, min: 1e5, median: 4e5, p95: 6e5, p99: 7e5, max: 9e5, total: 4e7 };
const BYTES = 64 << 20;

const WHY = { reason: 'call', later_ns: 3.5e6, phase: { path: ['step #', 'load'], share: 0.97 }, call_ns: 5.7e9,
  launch_ns: 0, gpu_ns: 0, unknown_ns: 2e8, missing: null };

/** @param {number} seed */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * `isUncompared`: clocks do not tell who came last.
 * @param {{ ranks?: number, steps?: number, late?: number, perChunk?: number, isUncompared?: boolean }} [options]
 * @returns {{ model: any, blobs: Map<string, Uint8Array>, chunks: Uint8Array[] }}
 */
export function job({ ranks = 16, steps = 200, late = 11, perChunk = 5000, isUncompared = false } = {}) {
  const next = random(7);
  const names = ['ncclAllReduce', 'NCCL launch', 'netSend', 'ncclReduceScatter', 'step #', 'backward'];
  const locations = Array.from({ length: ranks }, (_, rank) => [
    { name: `NCCL world rank ${rank}/${ranks}`, kind: 'operation', row: rank, ranks },
    { name: `API thread ${4000 + rank}`, kind: 'call', row: rank, ranks: null },
    { name: `net world r${rank} ch00 send→${(rank + 1) % ranks}`, kind: 'transfer', row: rank, ranks: null },
    { name: `ranges of API thread ${4000 + rank}`, kind: 'range', row: rank, ranks: null },
    { name: `ranges of API thread ${4000 + rank}`, kind: 'range', row: rank, ranks: null },
  // Rows of a location and of what runs on it have one id, as in an archive.
  ]).flat().map((location, at) => ({ ...location, id: 100 + at - at % 5 + Number(/API/.test(location.name)) }));
  const steps_ = [];
  const lateness = Array.from({ length: ranks }, () => /** @type {number[]} */ ([]));
  let time = 1_000_000;
  for (let step = 0; step < steps; step++) {
    const arrivals = Array.from({ length: ranks }, (_, rank) => Math.round(time + next() * 2e5 +
      (rank === late && step > steps / 3 ? 3e6 + next() * 1e6 : 0)));
    const last = Math.max(...arrivals);
    const end = last + 900_000;
    arrivals.forEach((arrival, rank) => lateness[rank].push(arrival - time - 1e5));
    steps_.push({ step, arrivals, last, end });
    time = end + 2_000_000;
  }
  const raw = steps_.flatMap(({ step, arrivals, last, end }) => arrivals.flatMap((arrival, rank) => {
    const base = { waiting: -1, instance: -1, attributes: -1, parent: '', sequence: -1 };
    return [
      { ...base, key: `c${step}.${rank}`, location: rank * 5 + 1, begin: arrival - 400_000, end: arrival - 300_000,
        name: 0 },
      { ...base, key: `l${step}.${rank}`, location: rank * 5 + 1, begin: arrival - 390_000, end: arrival - 320_000,
        name: 1, parent: `c${step}.${rank}` },
      { ...base, key: `o${step}.${rank}`, location: rank * 5, begin: arrival, end: end + rank,
        name: step % 5 === 4 ? 3 : 0,
        waiting: isUncompared ? -1 : last - arrival, instance: step, attributes: 0, parent: `c${step}.${rank}`,
        sequence: step },
      { ...base, key: `n${step}.${rank}`, location: rank * 5 + 2, begin: last + 2000, end: end - 3000, name: 2,
        attributes: 1, parent: `o${step}.${rank}` },
      { ...base, key: `s${step}.${rank}`, location: rank * 5 + 3, begin: arrival - 900_000, end, name: 4 },
      { ...base, key: `b${step}.${rank}`, location: rank * 5 + 4, begin: arrival - 500_000, end: arrival - 100_000,
        name: 5, attributes: 2 },
    ];
  }));
  raw.sort((a, b) => a.begin - b.begin);
  const parts = [];
  for (let at = 0; at < raw.length; at += perChunk) {
    parts.push(raw.slice(at, at + perChunk).sort((a, b) => a.location - b.location || a.begin - b.begin));
  }
  const numbers = new Map(parts.flat().map(({ key }, at) => [key, at]));
  let first = 0;
  const chunks = parts.map((part) => {
    const origin = Math.min(...part.map((event) => event.begin));
    const linked = part.map((event) => ({ ...event, parent: numbers.get(event.parent) ?? -1 }));
    const bytes = encodeChunk(linked, first, origin);
    first += part.length;
    return { bytes, begin_ns: origin, end_ns: Math.max(...part.map((event) => event.end)), events: part.length };
  });
  const blobs = new Map([['overview', overview(steps_, ranks, time)],
    ...chunks.map(({ bytes }, at) => /** @type {[string, Uint8Array]} */ ([`chunk-${at}`, bytes]))]);
  const model = {
    title: 'synthetic', tool: 'nccl-otf2 0.0.0', part: { from_ns: null, to_ns: null, ranks: [] }, left_out: {},
    report: reportOf({ ranks, steps, late, time, lateness, steps_ }), hang: null,
    timeline: {
      begin_ns: 0, duration_ns: time, complete: [[0, time]], all: Array.from({ length: 1024 }, () => raw.length / 1024),
      hosts: hostsOf(ranks), names, ranges: [4, 5], functions: [0],
      rows: Array.from({ length: ranks }, (_, rank) => ({ name: `rank ${rank}`, host: rank >> 3, rank })),
      locations, attributes: [[['nccl.bytes', BYTES], ['nccl.algo', 'RING'], ['nccl.timing', 'cupti']],
        [['nccl.channel', 0], ['nccl.wire_bytes', BYTES]], [['nvtx.color', 0xff76b900]]],
      overview: { bin_ns: time / 1024, bins: 1024 }, folder: null,
      chunks: chunks.map(({ begin_ns, end_ns, events }) => ({ begin_ns, end_ns, events, at: 'page' })),
    },
  };
  return { model, blobs, chunks: chunks.map(({ bytes }) => bytes) };
}

/** @param {number} ranks */
const hostsOf = (ranks) => Array.from({ length: Math.ceil(ranks / 8) }, (_, host) => `node${host + 1}`);

/** @param {{ arrivals: number[], last: number, end: number }[]} steps @param {number} ranks @param {number} time */
function overview(steps, ranks, time) {
  const bins = 1024;
  const cells = new Float64Array(ranks * bins * 2);
  const fill = (/** @type {number} */ row, /** @type {number} */ begin, /** @type {number} */ end) => {
    const size = time / bins;
    for (let bin = Math.floor(begin / size); bin <= Math.floor(end / size); bin++) {
      cells[row * bins + bin] += (Math.min(end, (bin + 1) * size) - Math.max(begin, bin * size)) / size;
    }
  };
  for (const { arrivals, last, end } of steps) {
    arrivals.forEach((arrival, rank) => {
      fill(rank, last, end);
      fill(ranks + rank, arrival, last);
    });
  }
  return Uint8Array.from([...cells].map((share) => Math.min(255, Math.round(share * 255)))
    .concat(new Array(ranks * bins).fill(0)));
}

const ratedBy = (/** @type {number} */ factor) => ({ slowdown: factor, typical_slowdown: factor, slow_steps: 0,
  chance: factor > 1.3 ? 0 : 1, lost_ns: factor > 1.3 ? Math.round((factor - 1) * 1e8) : null });
const NO_NICS = { from_nics: [], to_nics: [], nic_paths: [] };
const EXPECTED = { expected_busbw: 14.4e10, expected_share: 0.89, reduced_by: [],
  baseline: { busbw: 16e10, share: 0.8, is_transfer: true } };

/** @param {number} ranks @param {number} steps @param {number} time */
const pathOf = (ranks, steps, time) => ({
  from_ns: 0, to_ns: time, operations: steps, computing_ns: time / 2, launching_ns: 0, transfer_ns: time / 2,
  warm_up_ns: 0, unclear_ns: 0, sentence: `The critical path takes 1.000 s through ${steps} operations.`,
  parts: ['computing', 'transfer'].map((kind, at) => ({ kind, rank: at === 0 ? 0 : null,
    function: at === 0 ? null : 'ncclAllReduce', communicator: at === 0 ? null : 0,
    link: at === 0 ? null : { communicator: 0, from: 0, to: 1 % ranks, peer: 1, channel: null },
    phase: at === 0 ? { path: ['step #', 'load'], share: 0.9 } : null, ns: time / 2, share: 0.5, times: steps })),
});

/** @param {any} given */
function reportOf({ ranks, steps, late, time, lateness, steps_ }) {
  const budget = { operations_ns: 9e8, waiting_ns: 3e8, transfer_ns: 6e8, unclear_ns: 0, not_compared_ns: 0 };
  const link = (/** @type {number} */ from, /** @type {number} */ factor, /** @type {number | null} */ channel) => ({
    communicator: 0, from: channel === null ? from : null, to: channel === null ? (from + 8) % ranks : null,
    peer: null, channel, steps: 400, bytes: BYTES * 400, busy_ns: 5e8, rate: 2e10, change: null,
    all: { points: 400, latency_ns: 13_000 * factor, rate: 4.5e10, r_squared: 0.97 },
    least: { points: 12, latency_ns: 12_000 * factor, rate: 4.6e10, r_squared: 0.99 },
    points: Array.from({ length: 200 }, (_, at) => [at * 1e6, 2 ** (10 + (at % 13)),
      Math.round(13_000 * factor * (1 + (at % 7) / 50) + 2 ** (10 + (at % 13)) / 45)]),
    waits: { send_gpu_ns: 1e6, send_peer_ns: 0, send_ns: 4e8, recv_ns: 0, recv_flush_ns: 0, recv_gpu_ns: 0 },
    ...ratedBy(factor), ...NO_NICS,
  });
  const many = ranks >= 16;
  return {
    run: { anchor: 'trace/traces.otf2', nccl_versions: ['2.32.3'], recorded: ['standard'], commands: [],
      start_ns: 1795335322021554700, duration_ns: time, hosts: hostsOf(ranks), processes: ranks, events: 123456,
      operations: ranks * steps, instances: steps, comparable: ranks > 1 ? steps : 0, has_kernels: true,
      has_other_kernels: false, has_transfers: true, has_steps: true },
    verdict: { finding: 'causes', is_partial: false, rest: 'Nothing else stands out; no event was lost.',
      basis: ['200 of 200 collectives could be compared; clocks are within 6.3 µs.',
      'Lost times overlap: they do not add up.'],
    line: `Rank ${late} was late from 0.350 s to 1.050 s: 41 % of communication time lost, in \`step # > load\`` },
    budget,
    warm_up: { operations_ns: 0, waiting_ns: 0, transfer_ns: 0, unclear_ns: 0, not_compared_ns: 0 },
    causes: [{ kind: 'late-rank', rank: late < ranks ? late : 0, host: null, nics: [], link: null, since_ns: time / 3,
      phase: { path: ['step #', 'load'], share: 0.97 },
      why: WHY, lost_ns: 5.9e9, share: 0.41, instances: 130, is_stall: false,
      sentence: `Rank ${late} came 3.5 ms late from 0.35 s on.` },
    { kind: 'slow-pair', rank: null, host: null, nics: [], is_stall: false,
      link: { communicator: 0, from: 3, to: 11, peer: 11, channel: null }, phase: null, why: null,
      since_ns: null, lost_ns: 1.1e9, share: 0.018, instances: 12,
      sentence: '3 → 11 has 3.0 × the latency of others.' }],
    anomalies: ranks < 2 ? [] : [80, 120, 160].filter((step) => step < steps).map((step) => ({ kind: 'late-rank',
      rank: late, link: null, class: 0, sequence: step, start_ns: steps_[step].arrivals[0],
      end_ns: steps_[step].end, median_ns: 1e6, skew_ns: 3e6, lost_ns: 45e6, location: 100, event: 1,
      sentence: `Rank ${late} arrived 3.5 ms after the others.` })),
    communicators: [{ name: 'world', ranks, recorded: ranks, members: Array.from({ length: ranks }, (_, at) => at) }],
    operations: ['ncclAllReduce', 'ncclReduceScatter'].map((name, at) => ({ function: name, communicator: 0,
      bytes_min: BYTES, bytes_max: BYTES, count: 1000 / (at + 1), unfinished: 0, timing: { cupti: 1000 / (at + 1) },
      duration_ns: { ...QUANTILES, total: 4e8 / (at + 1) }, algbw: { ...QUANTILES, median: 2e10 },
      busbw: { ...QUANTILES, median: 3.7e10 }, transfer_busbw: { ...QUANTILES, median: 12.8e10 }, comparable: 100,
      skew_ns: QUANTILES, budget, ...EXPECTED })),
    ranks: Array.from({ length: ranks }, (_, rank) => ({ name: `rank ${rank}`, number: rank,
      process: `rank ${rank} [node:1]`, host: `node${(rank >> 3) + 1}`, uncertainty_ns: 1200,
      members: [{ communicator: 0, rank, location: 100 + rank * 5 }], instances: steps, last: rank === late ? 130 : 5,
      budget: { ...budget, waiting_ns: rank === late ? 4e7 : 3e8 + rank * 1e6 },
      p_value: null, caused_ns: 1e7, lost_ns: rank === late ? 5.8e9 : null, own_ns: rank === late ? 7e9 : 1e9,
      typical_ns: rank === late ? 3.4e6 : -1000, awaited_ns: rank === late ? 7.15e9 : 1e7,
      longer_ns: rank === late ? 6.8e9 : null, late_in: null, alone_ns: null,
      trend_ns_per_s: rank === late ? 5e5 : null,
      change: rank === late ? { at_ns: time / 3, before: 0, after: 3.4e6 } : null, why: null })),
    lateness: { from_ns: 0, bin_ns: time / steps, ranks: lateness },
    ...(many ? wiresOf(ranks) : { topology: null, nics: [] }),
    pairs: many ? Array.from({ length: Math.min(ranks, 64) }, (_, rank) => link(rank, rank === 3 ? 3 : 1, null)) : [],
    channels: many ? [0, 1, 2, 3].map((channel) => link(0, channel === 2 ? 1.4 : 1, channel)) : [],
    phases: [['step #', 'backward'], ['step #'], []].map((path, at) => ({ path, ranges: path.length * steps,
      ranges_ns: path.length * 1e9, operations: 400 >> at, bytes: BYTES >> at, budget })),
    steps: { name: 'step #', processes: ranks, trend_ns_per_step: 2500,
      duration_ns: { ...QUANTILES, count: steps, median: 3e6 },
      steps: steps_.map((/** @type {any} */ { arrivals, end }, /** @type {number} */ number) => ({ number,
        start_ns: arrivals[0] - 900_000,
        duration_ns: end - Math.min(...arrivals) + 900_000, shortest_ns: end - Math.max(...arrivals) + 900_000,
        slowest: 0, ranks_ns: 5e6 * ranks, budget: { ...budget, operations_ns: 2e6 * ranks, waiting_ns: 1e6 } })) },
    communicator_calls: ['ncclCommInitRankConfig', 'ncclCommDestroy'].map((name, at) => ({ function: name,
      communicator: 'world', ranks, start_ns: at * time, unfinished: at, duration_ns: 7e8 >> at, skew_ns: 3e8,
      last_rank: ranks - 1, last_process: `rank ${ranks - 1} [node:1]` })),
    messages: many ? Array.from({ length: 40 }, (_, at) => ({ communicator: 0, from: at % 4, to: (at + 1) % 4,
      count: 400, bytes: 400 << 20, late_sender_ns: at === 2 ? 0 : at * 1e7,
      late_receiver_ns: at === 2 ? 3e9 : 1e6 })) : [], overlap: null, critical_path: pathOf(ranks, steps, time),
    clocks: { uncertainty_ns: 6300, unknown: [], sentence: 'Arrivals of ranks are comparable to within 6.3 µs.' },
    completeness: {
      kinds: { coll: { seen: 3200, written: 3200 }, proxystep: { seen: 9000, written: 8786, lost: 214 } },
      other: {}, callbacks_lost: 214, callbacks_late: 0, switches: 0, problems: [], problem_count: 0,
      parts_left_out: [], topology_unused: [],
      ranks_missing: 0, collectives_unmatched: 0,
      matching: { mismatches: [['count', { number: 1, lines: ['world: rank 3 has 8 elements, the others 16'] }]],
        ranks_behind: { number: 0, lines: [] }, unknown: { number: 0, lines: [] } } },
    unreported: ['Replays of CUDA graphs without network transfers: only their capture is here.'],
  };
}

/** Hosts of eight GPUs with an interface each; the fourth of the first host is slow. @param {number} ranks */
function wiresOf(ranks) {
  const hosts = hostsOf(ranks).map((name, host) => ({ name, gpus: Array.from({ length: 8 }, (_, at) => ({
    pci: `0000:${(16 + at).toString(16)}:00.0`, path: `${at >> 2}/0000:${at}0:00.0`, capability: 90, nvlinks: 18,
    rank: host * 8 + at < ranks ? host * 8 + at : null })) }));
  const nics = hosts.flatMap((_, host) => Array.from({ length: 8 }, (__, at) => ({ host, name: `mlx5_${at}`,
    pci: `0000:${(32 + at).toString(16)}:00.0`, path: `${at >> 2}/0000:${at}0:00.0`, gdr: true, speed: 5e10, steps: 400,
    sent_bytes: BYTES * 400, received_bytes: BYTES * 390, busy_ns: 5e8, rate: host === 0 && at === 3 ? 1.5e10 : 4.4e10,
    share: host === 0 && at === 3 ? 0.3 : 0.88, slowdown: host === 0 && at === 3 ? 2.9 : 1 })));
  const graphs = ['RING', 'TREE'].flatMap((kind) => hosts.map((_, host) => ({ communicator: 0, host, kind,
    speed_intra: 2.4e10, speed_inter: 2.4e10, type_intra: 'NVL', type_inter: 'PXB',
    channels: Array.from({ length: 8 }, (__, channel) => ({ nic_in: host * 8 + channel,
      nic_out: host * 8 + channel, ranks: Array.from({ length: 8 }, (___, at) => host * 8 + ((channel + at) % 8)) })),
  })));
  return { topology: { hosts, graphs, communicators: 2, bytes_elsewhere: 5 << 20, unused: [] }, nics };
}

/** What `hang` says of a job of four ranks in which rank 2 did not call. */
export function hangReport() {
  const rank = (/** @type {number} */ at) => ({ rank: at, job_rank: at, process: `node1:${100 + at}`,
    process_state: 'gone', entered: at === 2 ? 4 : 5, stage: at === 2 ? 'not-entered' : 'running',
    for_ns: 13e9 + at * 1e8, inside: [], waits: [], text: at === 2 ? 'not there; its last: ncclAllReduce, done' :
      'had not ended when the recording did; proxy: channel 0 receive from rank 3 for 13 s' });
  const collective = (/** @type {number} */ position) => ({ position, is_sure: true, function: 'ncclAllReduce',
    sequence: position - 1, count: 40000, datatype: 'ncclFloat32', root: null });
  const next = 'look at the program’s stack in rank 2 the next time: py-spy dump --native --pid PID';
  return { format: 2, directory: 'trace', time_ns: 1, after_ns: 1e10, source: 'journals', verdict: { found: true,
    kind: 'hang', line: 'HANG: rank 2 had not called ncclAllReduce #5 of world; ranks 0-1, 3 waited for up to 13.3 s',
    reason: 'not-called', ranks: [2], evidence: ['rank 2 was in `step > load_batch`'], confidence: 'certain', next },
  suspects: [], quiet: null, ranks: [0, 1, 2, 3].map((at) => ({ job_rank: at, process: `node1:${100 + at}`,
    process_state: 'gone', reports_calls: true, call: null, ranges: ['step', 'load_batch'].slice(0, at === 2 ? 2 : 1)
      .map((name) => ({ domain: '', name, for_ns: 1e10 })) })),
  unknown: ['No kernel channel was recorded.'], processes: [], communicators: [{ name: 'world', id: '0x1', ranks: 4,
    ranks_known: true, has_all_ranks: true, ranks_missing: [], messages: [], straggler: null, sequences: [{
      graphs: false, from_beginning: true, last_complete: collective(4), first_incomplete: collective(5),
      entered: [0, 1, 3], not_entered: [2], position_unknown: [], waited_ns: 13e9, mismatch: null,
      ranks: [0, 1, 2, 3].map(rank) }] }] };
}

/** A comparison: a slower and a faster group, one without a difference, one that is too short. */
export function comparison() {
  const difference = (/** @type {string} */ outcome, /** @type {number} */ before, /** @type {number} */ by,
    /** @type {number} */ error) => ({ a_ns: before, b_ns: before + by, difference_ns: by, share: by / before,
    interval_ns: [by - error, by + error], error_ns: 100, resolution: (error + 100) / before,
    slower_at_most: (by + error + 100) / before, outcome });
  const group = (/** @type {string} */ name, /** @type {string} */ outcome, /** @type {number} */ by) => {
    const kind = { function: name, ranks: 8, hosts: 2, communicators: ['world'], bytes_min: 1 << 20,
      bytes_max: 1 << 20, timing: 'cupti', operations: 800, unfinished: 0, count: 100,
      total_ns: 8e7 };
    return { a: kind, b: { ...kind, count: 120 }, outcome, is_coarse: false, reason: null,
      median: difference(outcome, 68_200, by, 900), p99: null, waiting: difference('no-difference', 20_000, 10, 300),
      transfer: difference(outcome, 48_000, by, 800) };
  };
  const short = { ...group('ncclBroadcast', 'unclear', 0), median: null, waiting: null, transfer: null,
    reason: '50 operations are needed, A has 10 and B 12' };
  const groups = [group('ncclAllReduce', 'slower', 5800), group('ncclAllGather', 'faster', -2100),
    group('ncclReduceScatter', 'no-difference', 300), short];
  const { run, verdict } = job({ ranks: 8, steps: 30 }).model.report;
  return { title: 'monday and tuesday', tool: 'nccl-otf2 0.0.0', comparison: { format: 1, outcome: 'slower',
    sentence: 'B is slower in 1 of 3 groups of operations: ncclAllReduce of 1 MiB on 8 ranks, the median is 74.0 µs '
      + 'instead of 68.2 µs, +8.5 % (+7.2 % to +9.8 %), in transfer.',
    basis: ['3 groups of operations could be compared.', 'Intervals hold with 99 % confidence for all together.'],
    confidence: 0.99, groups,
    ranges: [{ path: ['step #', 'load'], a: 100, b: 120, median: difference('slower', 4e6, 1e6, 2e5),
      is_coarse: false }],
    only_a: [], only_b: [{ ...short.b, function: 'ncclReduce' }], limit: null,
    runs: [{ run: { ...run, anchor: 'monday/traces.otf2', nccl_versions: ['2.31.2'] }, ranks: 8, verdict },
      { run: { ...run, anchor: 'tuesday/traces.otf2' }, ranks: 8, verdict }] } };
}
