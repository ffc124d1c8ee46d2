// Phases and steps of the program, by the ranges that it names through NVTX, and how long communicators took.

import { add, fill, fillTable, section } from '#page/dom';
import { bytes, duration, gigabytes, NONE, number, pathText, percent, shortened } from '#page/format';
import { html, unit } from '#page/html';
import { budgetBar, isUnknown, keys } from '#page/operations';
import { plot } from '#page/plot';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Phase} Phase */
/** @typedef {import('../model').Step} Step */
/** @typedef {import('../model').CommunicatorCall} CommunicatorCall */

const SHOWN = 16;

/** A duration on an axis. */
export const plain = (/** @type {number} */ ns) => duration(ns).replace(/\.0+(?=\D)/, '');

/** Phases that have operations, or a rank that is in them for longest. @param {Model['report']} report */
export const shownPhases = (report) => report.phases.filter(({ operations, longest }) =>
  operations > 0 || longest !== null);

/** @param {Model} model */
export function phases({ report }) {
  const rows = shownPhases(report);
  if (rows.length === 0) return;
  const idle = report.phases.filter(({ operations }) => operations === 0).length;
  const blamed = report.causes[0]?.why?.phase ?? report.causes[0]?.phase ?? null;
  const waiting = (/** @type {Phase} */ row) => row.budget.waiting_ns;
  const worst = rows.reduce((a, b) => (waiting(b) > waiting(a) ? b : a), rows[0]);
  const all = Math.max(1, rows.reduce((sum, row) => sum + waiting(row), 0));
  const element = section('phases', 'Phases of the program', 'nccl-otf2 stats --by phase', html`Operations by the ranges
    (NVTX) that the program called them in. ${waiting(worst) > 0 && html`<b>${percent(waiting(worst) / all)} of all
    waiting is in operations called ${worst.path.length > 0 ? `in ${shortened(pathText(worst.path))}` :
      'outside of ranges'}.</b>`}${
    idle > 0 && html` ${number(idle)} range${idle !== 1 && 's'} called none.`}`, { half: true });
  keys(element, rows.map((row) => row.budget), 'transfer', 'moved');
  const most = Math.max(...rows.map((row) => row.budget.operations_ns), 1);
  const isAny = rows.some(({ longest }) => longest !== null);
  fillTable(add(element, 'table', 'tight'), 'Phases', [
    { title: 'range', head: true, key: (row) => row.path.join('\0'), className: 'wrap', cell: pathOf },
    { title: 'times', number: true, key: (row) => row.ranges, cell: (row) => number(row.ranges || null) },
    ...(isAny ? longestOf(report) : []),
    { title: 'operations', number: true, key: (row) => row.operations, cell: (row) => number(row.operations) },
    { title: 'bytes', number: true, key: (row) => row.bytes, cell: (row) => bytes(row.bytes || null) },
    { title: html`rate,<br>GB/s`, number: true, key: (row) => rate(row) ?? -1,
      cell: (row) => gigabytes(rate(row)) },
    { title: html`in<br>operations`, number: true, key: (row) => row.budget.operations_ns,
      cell: (row) => duration(row.budget.operations_ns || null) },
    { title: 'waiting', number: true, key: waiting,
      cell: (row) => duration(waiting(row) > 0 || (row.budget.operations_ns > 0 && !isUnknown(row.budget)) ?
        waiting(row) : null) },
    { title: '', style: 'width:26%', cell: (row) => budgetBar(row.budget, most, pathText(row.path)) },
  ], rows, { sort: [isAny ? 8 : 5, -1], limit: SHOWN,
    mark: (row) => blamed !== null && pathText(row.path) === pathText(blamed.path) });
}

/** Where a rank is in a range for longer than the others. @param {Model['report']} report
 * @returns {import('#page/dom').Column<Phase>[]} */
const longestOf = ({ ranks }) => [
  { title: 'longest on', key: ({ longest }) => longest?.rank ?? -1,
    cell: ({ longest }) => (longest ? ranks[longest.rank]?.name : NONE) },
  { title: 'its time', number: true, key: ({ longest }) => longest?.ns ?? -1,
    cell: ({ longest }) => duration(longest?.ns ?? null) },
  { title: html`median of<br>others`, number: true, key: ({ longest }) => longest?.others_ns ?? -1,
    cell: ({ longest }) => duration(longest?.others_ns ?? null) },
];

/** @param {Phase} phase */
function pathOf({ path }) {
  if (path.length === 0) return unit('outside of ranges');
  const own = path[path.length - 1];
  const around = pathText(path).slice(0, -own.length);
  return html`<span title="${pathText(path)}">${unit(shortened(around))}${shortened(own)}</span>`;
}

/** @param {Phase} phase */
const rate = ({ bytes: moved, budget: { operations_ns: ns } }) => (ns > 0 ? (moved / ns) * 1e9 : null);

const share = (/** @type {number} */ part, /** @type {Step} */ step) => part / Math.max(1, step.ranks_ns);

/** @param {Model} model @param {(begin: number, end: number, rank: number) => void} goTo */
export function steps({ report }, goTo) {
  const found = report.steps;
  if (!found) return;
  const waitingIn = /** @type {import('#page/dom').Column<Step>} */ ({ title: 'waiting, %', number: true,
    key: (step) => share(step.budget.waiting_ns, step),
    cell: (step) => number(isOpen(step) ? null : share(step.budget.waiting_ns, step) * 100, 1) });
  // Of a step in which a job hangs, what had not ended is not counted.
  const isOpen = (/** @type {Step} */ step) => report.verdict.finding === 'unfinished' &&
    step.start_ns + step.duration_ns > report.run.duration_ns - 1e3;
  const ended = found.steps.filter((step) => !isOpen(step));
  const sum = (/** @type {(step: Step) => number} */ of) => ended.reduce((all, step) => all + of(step), 0);
  const whole = Math.max(1, sum((step) => step.ranks_ns));
  // Where all is within the clocks' error, it is not known who waits.
  const isKnown = ended.some(({ budget }) => budget.waiting_ns > 0) || !ended.some(({ budget }) => isUnknown(budget));
  const trend = found.trend_ns_per_step;
  const element = section('steps', 'Steps of the program', 'nccl-otf2 stats --by step', html`A step is the range
    <em>${found.name}</em>, on ${number(found.processes)} process${found.processes !== 1 && 'es'}.
    <b>${percent(sum((step) => step.budget.operations_ns) / whole)} of the time of all ranks in steps${
    ended.length < found.steps.length && ' that ended'} is communication${
    isKnown && `, ${percent(sum((step) => step.budget.waiting_ns) / whole)} waiting for a later rank`}.</b> ${
    found.duration_ns && html`The median step takes ${duration(found.duration_ns.median)}.`} ${trend !== null &&
    html`Each is ${duration(Math.abs(trend))} ${trend < 0 ? 'shorter' : 'longer'} than the one before.`}`,
    { half: true });
  const { steps: all } = found;
  if (all.length > 2) {
    fill(add(element, 'div', 'keys'), html`<span class="key"><u></u>time of a step on the slowest rank</span><span
      class="key"><u style="background:var(--f-AllReduce)"></u>communication in it, mean of all ranks</span>`);
    plot(add(element, 'figure'), { height: 150, data: [all.map(({ number: at }) => at),
      all.map((step) => step.duration_ns),
      all.map((step) => step.budget.operations_ns / Math.max(1, report.ranks.length))],
    yRange: [0, Math.max(...all.map((step) => step.duration_ns))],
    series: [{ colour: '--ink', width: 1.2 }, { colour: '--f-AllReduce', width: 1.8 }], yText: plain,
    xText: (at) => (Number.isInteger(at) ? `step ${number(at)}` : '') });
  }
  const table = add(element, 'table', 'tight');
  const differs = all.some((step) => step.shortest_ns !== step.duration_ns);
  fillTable(table, 'Slowest steps', [
    { title: 'step', head: true, key: (step) => step.number,
      cell: (step) => html`<a href="#timeline" data-step="${all.indexOf(step)}">step ${step.number}</a>` },
    { title: differs ? 'slowest' : 'time', number: true, key: (step) => step.duration_ns,
      cell: (step) => duration(step.duration_ns) },
    ...(differs ? [fastest] : []),
    ...(all.some((step) => step.slowest !== null) ? [slowestOf(report)] : []),
    { title: 'communication, %', number: true, key: (step) => share(step.budget.operations_ns, step),
      cell: (step) => number(isOpen(step) ? null : share(step.budget.operations_ns, step) * 100, 1) },
    ...(isKnown ? [waitingIn] : []),
  ], all, { sort: [1, -1], limit: SHOWN });
  table.addEventListener('click', (event) => {
    const at = /** @type {HTMLElement} */ (event.target).dataset.step;
    const step = at === undefined ? undefined : all[Number(at)];
    if (step) goTo(step.start_ns, step.start_ns + step.duration_ns, step.slowest ?? 0);
  });
}

/** @type {import('#page/dom').Column<Step>} */
const fastest = { title: 'fastest', number: true, key: (step) => step.shortest_ns,
  cell: (step) => duration(step.shortest_ns) };

/** @param {Model['report']} report @returns {import('#page/dom').Column<Step>} */
const slowestOf = ({ ranks }) => ({ title: 'slowest rank', key: (step) => step.slowest ?? -1,
  cell: (step) => (step.slowest === null ? NONE : ranks[step.slowest]?.name) });

/** @param {Model} model */
export function communicators({ report }) {
  const rows = report.communicator_calls;
  if (rows.length === 0) return;
  const whole = rows.reduce((sum, row) => sum + row.duration_ns, 0);
  const open = rows.reduce((sum, row) => sum + row.unfinished, 0);
  const took = whole > 0 && ` took ${duration(whole)}`;
  const element = section('making', 'Making and ending communicators', 'nccl-otf2 stats --by init', html`<b>${
    number(rows.length)} call${rows.length !== 1 && 's'}${took}</b>${took &&
    ', each counted on its slowest rank'}${open > 0 && html`; ${number(open)} had
    not returned when the recording ended`}.`, { open: open > 0 });
  fillTable(add(element, 'table', 'tight'), 'Calls that make and end communicators', [
    { title: 'call', head: true, key: (row) => row.function, cell: (row) => row.function },
    { title: 'communicator', key: (row) => row.communicator, cell: (row) => row.communicator || NONE,
      className: 'name' },
    { title: 'ranks', number: true, key: (row) => row.ranks, cell: (row) => number(row.ranks) },
    { title: 'begin', number: true, key: (row) => row.start_ns, cell: (row) => duration(row.start_ns) },
    { title: 'time', number: true, key: (row) => row.duration_ns, cell: (row) => duration(row.duration_ns) },
    { title: 'first to last call', number: true, key: (row) => row.skew_ns, cell: (row) => duration(row.skew_ns) },
    { title: 'called last', key: (row) => row.last_rank ?? -1, cell: lastOf },
  ], rows, { sort: [3, 1], limit: SHOWN, mark: (row) => row.unfinished > 0 });
}

/** @param {CommunicatorCall} call */
const lastOf = ({ last_rank: rank, last_process: process }) => (rank === null ? process : `rank ${rank} (${process})`);
