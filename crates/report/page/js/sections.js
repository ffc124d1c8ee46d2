// Channels, overlap, anomalies, what is missing, and how to read the page.

import { add, fill, fillTable, section } from '#page/dom';
import { bytes, directoryOf, duration, gigabytes, number, numbered, percent } from '#page/format';
import { html, prose, unit } from '#page/html';
import { countPairs, scatter } from '#page/pairs';
import { isComparable } from '#page/skew';
import { exposedShare, isWhole } from '#page/verdict';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Report} Report */
/** @typedef {import('../model').Link} Link */
/** @typedef {import('../model').Anomaly} Anomaly */

const SHOWN = 16;

/** @param {Model} model */
export function channels({ report }) {
  const rows = report.channels;
  const slow = report.causes.find(({ kind }) => kind === 'slow-channel');
  if (rows.length === 0) return;
  const element = section('channels', 'Channels', 'nccl-otf2 stats --by channels', html`Time
    of a transfer by its bytes, between all ranks. A collective is as slow as its slowest channel.
    <b>${slow ? prose(slow.sentence) : rows.some((row) => row.lost_ns) ?
      'No channel is slow as a whole: what is lost in a row is lost on its slow pairs.' :
      'No channel costs 2 % of communication time.'}</b>`, { open: slow !== undefined });
  const ordered = [...rows].sort((a, b) => (b.slowdown ?? 0) - (a.slowdown ?? 0));
  const first = slow?.link?.channel ?? null;
  const name = (/** @type {Link} */ link) => `${report.communicators[link.communicator]?.name ?? ''} ${link.channel}`;
  let chosen = ordered.find((link) => link.channel === first) ?? ordered[0];
  const grid = add(element, 'div', 'pairs channels');
  const table = add(add(grid, 'div', 'scrolls'), 'table', 'tight');
  const figure = add(grid, 'figure');
  const choose = (/** @type {Link} */ link) => {
    chosen = link;
    scatter(figure, `channel ${name(chosen)}`, chosen, rows.filter((other) => other !== chosen));
    table.querySelectorAll('a').forEach((one) =>
      one.closest('tr')?.classList.toggle('mark', one.dataset.at === String(rows.indexOf(chosen))));
  };
  fillTable(table, 'Channels', [
    { title: 'channel', head: true, className: 'wrap', key: (link) => link.channel ?? 0,
      cell: (link) => html`<a href="#channels" data-at="${rows.indexOf(link)}">${name(link)}</a>` },
    { title: 'bytes', number: true, key: (link) => link.bytes, cell: (link) => bytes(link.bytes) },
    { title: html`rate,<br>GB/s`, number: true, key: (link) => link.rate ?? -1, cell: (link) => gigabytes(link.rate) },
    { title: html`slowdown,<br>×`, number: true, key: (link) => link.slowdown ?? -1,
      cell: (link) => number(link.slowdown, 2) },
    { title: 'change', cell: (link) => (link.change ? html`at ${duration(link.change.at_ns)}: × ${
      number(link.change.before, 2)} → × ${number(link.change.after, 2)}` : unit('none')) },
    { title: 'lost', number: true, key: (link) => link.lost_ns ?? -1, cell: (link) => duration(link.lost_ns) },
  ], rows, { sort: [3, -1], limit: SHOWN });
  table.addEventListener('click', (event) => {
    const at = /** @type {HTMLElement} */ (event.target).dataset.at;
    if (at === undefined) return;
    event.preventDefault();
    choose(rows[Number(at)]);
  });
  choose(chosen);
}

/** @param {Model} model */
export function overlap({ report }) {
  const rows = report.overlap;
  const exposed = exposedShare(rows);
  if (!rows || exposed === null) return;
  const element = section('overlap', 'Overlap with computing', 'nccl-otf2 stats --by overlap', html`<b>${
    percent(exposed)} of communication time is exposed:</b> no other kernel runs on the GPU meanwhile. The
      rest is hidden behind computing.`, { open: false });
  const most = Math.max(...rows.map((row) => row.communication_ns + row.computation_ns - row.overlap_ns), 1);
  const width = (/** @type {number} */ ns) => `width:${((ns / most) * 100).toFixed(2)}%`;
  add(element, 'div', 'keys').innerHTML = html`<span class="key"><i class="moved"></i>communication alone</span>
    <span class="key"><i class="both"></i>both</span>
    <span class="key"><i class="unclear"></i>computing alone</span>`.text;
  fillTable(add(element, 'table', 'tight'), 'Overlap by rank', [
    { title: 'rank', head: true, key: (row) => row.rank, cell: (row) => report.ranks[row.rank].name },
    { title: '', style: 'width:56%', cell: (row) => html`<div class="bar" role="img" aria-label="exposed ${
      duration(row.exposed_ns)}"><i class="fn moved" style="${width(row.exposed_ns)}"></i><i class="both"
      style="${width(row.overlap_ns)}"></i><i class="unclear" style="${width(row.computation_ns - row.overlap_ns)}">
      </i></div>` },
    { title: 'communication', number: true, key: (row) => row.communication_ns,
      cell: (row) => duration(row.communication_ns) },
    { title: 'computing', number: true, key: (row) => row.computation_ns,
      cell: (row) => duration(row.computation_ns) },
    { title: 'both', number: true, key: (row) => row.overlap_ns, cell: (row) => duration(row.overlap_ns) },
    { title: 'exposed', number: true, key: (row) => row.exposed_ns, cell: (row) => duration(row.exposed_ns) },
    { title: 'exposed, %', number: true, key: (row) => row.exposed_ns / Math.max(1, row.communication_ns),
      cell: (row) => number((row.exposed_ns / Math.max(1, row.communication_ns)) * 100) },
  ], rows, { sort: [5, -1], limit: SHOWN });
}

/** Anomalies of one cause. @typedef {{ cause: string, kind: string, list: Anomaly[], lost: number }} Group */

/** @param {Report} report @returns {Group[]} */
function groups(report) {
  const found = new Map();
  for (const anomaly of report.anomalies) {
    const { kind, rank, link } = anomaly;
    const pair = link && [link.from, link.to].map((at) => (at === null ? '?' : report.ranks[at].name)).join(' → ');
    const where = link && link.channel !== null ? `channel ${link.channel}` : pair;
    const who = rank !== null ? report.ranks[rank].name : where;
    const key = `${kind} ${who}`;
    if (!found.has(key)) found.set(key, { cause: who ?? 'none shown', kind, list: [], lost: 0 });
    const group = found.get(key);
    group.list.push(anomaly);
    group.lost += anomaly.lost_ns;
  }
  return [...found.values()].sort((a, b) => b.lost - a.lost);
}

/** @param {Model} model */
export function anomalies({ report }) {
  if (report.anomalies.length === 0) return;
  const element = section('anomalies', 'Anomalies', 'nccl-otf2 stats --by anomalies', html`Operations
      far from the median of their kind, by cause and by the time that all ranks lost. A cause is named
      only where the trace shows it; lost times of different causes overlap and do not add up.`,
  { open: report.verdict.finding === 'pauses' });
  const name = (/** @type {Anomaly} */ anomaly) => report.operations[anomaly.class]?.function ?? '';
  fillTable(add(element, 'table'), 'Anomalies by cause', [
    { title: 'lost', number: true, key: (group) => group.lost, cell: (group) => duration(group.lost) },
    { title: 'instances', number: true, key: (group) => group.list.length, cell: (group) => number(group.list.length) },
    { title: 'kind', key: (group) => group.kind, cell: (group) => group.kind.replaceAll('-', ' ') },
    { title: 'cause', head: true, cell: (group) => group.cause },
    { title: 'what the trace shows, in the worst case', className: 'wrap',
      cell: (group) => prose(group.list[0].sentence) },
    { title: html`worst, in the timeline ${unit('(lost)')}`, cell: (group) => html`${group.list.slice(0, 3)
      .sort((a, b) => a.start_ns - b.start_ns).map((one) => html`<a href="#anomaly=${
        report.anomalies.indexOf(one)}">${
        numbered(name(one), one.sequence)}</a> ${unit(duration(one.lost_ns))} &nbsp; `)}` },
  ], groups(report), { limit: SHOWN });
}

/** Kinds of events as people call them. */
const KINDS = /** @type {Record<string, string>} */ ({
  coll: 'collectives', p2p: 'sends and receives', proxyop: 'proxy operations', proxystep: 'proxy steps',
  proxyctrl: 'proxy control', kernelch: 'kernel channels', kernellaunch: 'kernel launches', groupapi: 'group calls',
  collapi: 'collective calls', p2papi: 'send and receive calls', group: 'launch plans', netplugin: 'network plugin',
  cecoll: 'copy-engine collectives', cesync: 'copy-engine synchronisation', cebatch: 'copy-engine batches',
});

/** Sections that have nothing to show, and what to record for them. @param {Report} report */
function unrecorded(report) {
  const { run, overlap: rows, channels: ofChannels, anomalies: found } = report;
  const events = (/** @type {string} */ set) => html`<code>NCCL_OTF2_EVENTS=${set}</code>`;
  const network = html`NCCL’s proxy moved nothing over a network`;
  return [
    report.operations.length === 0 && html`<b>operations</b> (none was recorded)`,
    report.operations.length > 0 && !isComparable(report) && html`<b>who is late</b> (no collective has arrivals on
      several ranks that can be compared)`,
    countPairs(report) === 0 && html`<b>pairs of ranks</b> (${run.has_steps ?
      'no message or transfer has both ends here' :
      html`${events('standard,ProxyStep')} records them; there are none where ${network}`})`,
    ofChannels.length === 0 && html`<b>channels</b> (${run.has_steps ? network :
      html`${events('standard,ProxyStep')} records them`})`,
    !report.topology && html`<b>hosts and links</b> (NCCL did not write its topology: <code>nccl-otf2 run</code> has it
      do so)`,
    report.phases.length === 0 && html`<b>phases and steps</b> (no range of the program was recorded: <code>nccl-otf2
      run</code> records what programs name through NVTX)`,
    exposedShare(rows) === null && html`<b>overlap with computing</b> (${run.has_other_kernels ?
      'no communication was seen beside other kernels' :
      html`<code>NCCL_OTF2_GPU=cupti NCCL_OTF2_CUPTI_KERNELS=all</code> records kernels other than NCCL’s, and another
        profiler of GPUs in the job, such as PyTorch’s, may get nothing then`})`,
    report.operations.length > 0 && found.length === 0 && html`<b>anomalies</b> (no operation took far longer than
      the others of its kind)`,
  ].filter((one) => one !== false);
}

/** @param {Model} model */
export function completeness({ report }) {
  const found = report.completeness;
  const kinds = Object.entries(found.kinds).filter(([, counts]) => (counts.seen ?? 0) > 0);
  const sum = (/** @type {string} */ what) => kinds.reduce((all, [, counts]) => all + (counts[what] ?? 0), 0);
  const whole = isWhole(found);
  const heading = 'What was seen, what is missing, how exact it is';
  const element = section('completeness', heading, 'nccl-otf2 info', html`<b>${
    kinds.length === 0 ? 'The archive does not say what was lost' : whole ? 'Everything that NCCL reported is here' :
      missing(found)}</b>${sum('unfinished') > 0 && html`; ${
    number(sum('unfinished'))} events had not ended when the recording did`}.`, { open: !whole });
  const absent = unrecorded(report);
  if (absent.length > 0) {
    const line = add(element, 'p', 'lede');
    line.id = 'unrecorded';
    fill(line, html`Not on this page: ${absent.map((one, at) => html`${at > 0 && '; '}${one}`)}.`);
  }
  const columns = add(element, 'div', 'columns');
  const left = add(columns, 'div');
  if (kinds.length > 0) {
    fill(left, html`<h3>seen = written + left out + not shown + duplicate; lost events were not seen</h3>`);
  }
  const count = (/** @type {string} */ title, /** @type {string} */ key) => ({ title, number: true,
    cell: (/** @type {[string, Record<string, number>]} */ [, counts]) => number(counts[key] ?? 0) });
  // Most archives have none of these.
  const anyOf = (/** @type {string} */ title, /** @type {string} */ key) => (sum(key) > 0 ? [count(title, key)] : []);
  if (kinds.length > 0) fillTable(add(left, 'table'), 'Events by kind', [
    { title: 'kind', head: true, cell: ([kind]) => KINDS[kind] ?? kind.replaceAll('_', ' ') },
    count('seen', 'seen'), count('written', 'written'), ...anyOf('left out', 'left_out'),
    ...anyOf('not shown', 'not_shown'), ...anyOf('duplicate', 'duplicate'), count('lost', 'lost'),
    count('unfinished', 'unfinished'), count('late', 'late'),
  ], kinds, { mark: ([, counts]) => (counts.lost ?? 0) > 0 });
  const list = (/** @type {string} */ title, /** @type {string[]} */ lines) => (lines.length === 0 ? '' :
    html`<h3>${title}</h3><ul>${lines.slice(0, 12).map((line) => html`<li>${prose(line)}</li>`)}${lines.length > 12 &&
      html`<li class="u">and ${lines.length - 12} more: nccl-otf2 info</li>`}</ul>`);
  fill(add(columns, 'div'), html`<h3>Clocks</h3><p>${report.clocks.sentence}</p>
    ${report.clocks.unknown.length > 0 && html`<p>Not comparable: ${report.clocks.unknown.slice(0, 16)
      .map((rank) => report.ranks[rank].name).join(', ')}.</p>`}
    ${list('Ranks that call different things', found.matching.mismatches.flatMap(([what, { lines }]) =>
      lines.map((line) => `${what}: ${line}`)))}
    ${list('Ranks that had called fewer collectives than others', found.matching.ranks_behind.lines)}
    ${list('Problems', found.problems)}${list('Left out', found.parts_left_out)}
    ${list('Dumps of NCCL’s topology that could not be used', found.topology_unused)}`);
}

/** @param {import('../model').Completeness} found */
function missing(found) {
  const parts = /** @type {[number, string, string][]} */ ([
    [found.callbacks_lost, 'callback', 'could not be recorded'], [found.ranks_missing, 'rank', 'not recorded'],
    [found.problem_count, 'place', 'of journals could not be read'],
    [found.parts_left_out.length, 'process', 'left out'],
    [found.switches, 'time', 'recording was switched off or on']]);
  const plural = (/** @type {number} */ count, /** @type {string} */ what) =>
    (count === 1 ? what : what + (what.endsWith('s') ? 'es' : 's'));
  const said = parts.filter(([count]) => count > 0).map(([count, what, how]) =>
    `${number(count)} ${plural(count, what)} ${how}`);
  return `Something is missing: ${said.join(', ')}`;
}

/** @param {Model} model */
export function howTo({ report, tool }) {
  const words = [
    ['collective', 'what all ranks of a communicator do together: an all-reduce gives every rank the sum of all'],
    ['arrival', 'when an operation begins on a rank, on the common clock; not when it was enqueued'],
    ['waiting', 'from a rank’s arrival to that of the last rank; hatched'],
    ['transfer', 'from the last arrival to the end; solid'],
    ['lost', 'summed over the ranks: 1 s on each of 16 ranks is 16 s. Times lost to several causes overlap: '
      + 'they do not add up'],
    ['chance', 'how probable it is that others wait so long for any rank if no rank is at fault; below 0.001 a rank ' +
      'is late'],
    ['algbw, busbw', 'as nccl-tests compute them, in the median'],
    ['timing', 'cupti: the kernel; event: CUDA events around it; kernelch: the GPU’s timer; proxy: to the last '
      + 'network transfer; enqueue: the host only, not how long it ran'],
    ['slowdown', 'time of a link’s steps ÷ that of as many of the better third of the links that do the same'],
    ['lost by a link', 'what all ranks would save if it were like these; only of links that are slow beyond chance'],
    ['exposed', 'communication while no other kernel runs on the GPU'],
  ];
  const element = section('how', 'How to read and reproduce this', '', html`The archive has every event: open it in
    Vampir or ViTE.`, { open: false });
  const directory = directoryOf(report.run.anchor);
  fill(add(element, 'div', 'columns'), html`<div><h3>Words</h3><dl class="kv words">${words.map(([word, means]) =>
    html`<dt><b>${word}</b></dt><dd>${means}</dd>`)}</dl></div><div><h3>Commands</h3><pre>${
    report.verdict.finding === 'unfinished' && `nccl-otf2 hang ${directory}\n`
}nccl-otf2 report ${directory}
nccl-otf2 stats ${directory}
nccl-otf2 stats ${directory} --by ranks
nccl-otf2 stats ${directory} --json
nccl-otf2 info ${directory}</pre><p class="small u">Made by ${tool} from ${number(report.run.events)} events of ${
    number(report.run.processes)} processes.</p></div>`);
}


/** Tables that a page has no room for, with their sections and what prints all rows. */
const CUT = /** @type {Record<string, [string, string]>} */ ({
  pairs: ['pairs', 'pairs'], messages: ['pairs', 'messages'], operations: ['operations', 'operations'],
  phases: ['phases', 'phase'], steps: ['steps', 'step'], communicator_calls: ['making', 'init'] });

/** Says what did not fit into the page. @param {Model} model */
export function leftOut({ left_out: all }) {
  for (const [name, count] of Object.entries(all)) {
    const [place, table] = CUT[name];
    const element = document.querySelector(`#${place} .body`);
    if (element) {
      fill(add(element, 'p', 'u'), html`${number(count)} more rows of ${name.replace('_', ' ')} do not fit into this
        page, which has those that took or lost most; sums here are of these. <code>nccl-otf2 stats --by ${table}</code>
        prints all.`);
    }
  }
}
