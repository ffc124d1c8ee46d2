// Operations by function, size and communicator; waiting and transfer by rank.

import { add, colourName, dot, fill, fillTable, section } from '#page/dom';
import { capital, duration, gigabytes, median, NONE, number, percent, sizes } from '#page/format';
import { html } from '#page/html';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').OperationClass} OperationClass */
/** @typedef {import('../model').Quantiles} Quantiles */
/** @typedef {import('../model').Budget} Budget */

const middle = (/** @type {Quantiles | null} */ values) => values?.median ?? null;
const total = (/** @type {OperationClass} */ row) => row.duration_ns?.total ?? 0;
/** The share of waiting; none where nothing is compared over ranks. */
const waiting = (/** @type {Budget} */ { operations_ns: all, waiting_ns: part, not_compared_ns: rest,
  unclear_ns: unclear }) => (all === rest + unclear ? null : part / all);

/**
 * Parts of a time; the transfer of a function has its colour.
 * @param {Omit<Budget, 'operations_ns' | 'not_compared_ns'> & { not_compared_ns?: number }} budget
 * @param {number} most
 * @param {string} name
 * @param {string} [colour]
 */
export function budgetBar(budget, most, name, colour = '--seq') {
  const { waiting_ns: wait, transfer_ns: transfer, unclear_ns: unclear, not_compared_ns: rest = 0 } = budget;
  const width = (/** @type {number} */ ns) => `width:${((ns / Math.max(1, most)) * 100).toFixed(2)}%`;
  return html`<div class="bar" role="img" aria-label="${name}: waiting ${duration(wait)}, transfer ${
    duration(transfer)}, unclear ${duration(unclear + rest)}"><i class="hatched" style="${width(wait)}"></i><i
    class="fn" style="${width(transfer)};background:var(${colour})"></i><i class="unclear"
    style="${width(unclear + rest)}"></i></div>`;
}

/**
 * What the colours of bars stand for, of those that occur.
 * @param {HTMLElement} element @param {Budget[]} budgets @param {string} transfer @param {string} colour
 */
export function keys(element, budgets, transfer, colour) {
  const has = (/** @type {keyof Budget} */ part) => budgets.some((it) => it[part] > 0);
  const key = (/** @type {string} */ name, /** @type {string} */ text) =>
    html`<span class="key">${name && html`<i class="${name}"></i>`}${text}</span>`;
  fill(add(element, 'div', 'keys'), html`${has('waiting_ns') && key('hatched', 'waiting for the last rank')}${
    has('transfer_ns') && key(colour, transfer)}${(has('unclear_ns') || has('not_compared_ns')) &&
    key('unclear', 'unclear, or not compared')}`);
}

/** The time in operations without warm-up. @param {Model['report']} report @returns {Budget} */
function judged({ budget, warm_up: first }) {
  const rest = { ...budget };
  for (const part of /** @type {(keyof Budget)[]} */ (Object.keys(rest))) rest[part] -= first[part];
  return rest;
}

/** @param {Model} model */
export function operations({ report }) {
  const rows = report.operations;
  const budget = judged(report);
  const share = budget.operations_ns === budget.not_compared_ns ? null : waiting(budget) ?? 0;
  if (rows.length === 0) return;
  const parts = /** @type {[number, string][]} */ ([[budget.waiting_ns, 'is waiting for the last rank'],
    [budget.transfer_ns, 'moves bytes'], [budget.unclear_ns, 'is unclear within the clocks’ error'],
    [budget.not_compared_ns, 'is in sends, receives and others that are not compared']]).filter(([ns]) =>
    ns >= 0.005 * budget.operations_ns && ns > 0);
  const element = section('operations', 'Operations', 'nccl-otf2 stats --by operations', share === null ?
    html`No collective has arrivals on several ranks that can be compared: waiting and transfer are not told apart.` :
    html`<b>Of the time of all ranks in operations${report.warm_up.operations_ns > 0 && ' after warm-up'} ${
      parts.map(([ns, what]) => `${percent(ns / budget.operations_ns)} ${what}`).join(', ')}.</b> ${
      report.verdict.finding === 'unfinished' &&
      'What had not ended is in none of these times. '}Busbw counts both, as nccl-tests do; beside it is that of
      the transfer alone, which tells what the links give.`, { open: report.causes.length === 0 });
  const most = rows.reduce((a, row) => Math.max(a, row.budget.operations_ns), 1);
  keys(element, rows.map((row) => row.budget), 'transfer, in the colour of the function', '');
  fillTable(add(element, 'table'), 'Operations by function, communicator and size', [
    { title: 'function', head: true, key: (row) => row.function,
      cell: (row) => html`${dot(row.function)}${row.function}` },
    { title: 'communicator', key: (row) => report.communicators[row.communicator]?.name ?? '',
      cell: (row) => report.communicators[row.communicator]?.name ?? NONE, className: 'name' },
    { title: 'size', number: true, key: (row) => row.bytes_min, cell: (row) => sizes(row.bytes_min, row.bytes_max) },
    { title: 'count', number: true, key: (row) => row.count, cell: (row) => number(row.count) },
    ...quantiles(),
    { title: html`algbw,<br>GB/s`, number: true, key: (row) => middle(row.algbw) ?? -1,
      cell: (row) => gigabytes(middle(row.algbw)) },
    { title: html`busbw,<br>GB/s`, number: true, key: (row) => middle(row.busbw) ?? -1,
      cell: (row) => gigabytes(middle(row.busbw)) },
    { title: html`transfer_<br>busbw, GB/s`, number: true, key: (row) => middle(row.transfer_busbw) ?? -1,
      cell: (row) => gigabytes(middle(row.transfer_busbw)) },
    ...(rows.some((row) => row.expected_busbw !== null) ? [expected] : []),
    { title: 'total', number: true, key: total, cell: (row) => duration(row.duration_ns?.total ?? null) },
    { title: html`waiting,<br>%`, number: true, key: (row) => waiting(row.budget) ?? -1,
      cell: (row) => number((waiting(row.budget) ?? NaN) * 100) },
    ...ofBaseline(rows),
    { title: '', cell: (row) => html`<div style="width:96px">${budgetBar(row.budget, most, row.function,
      colourName(row.function))}</div>` },
    { title: 'timing', cell: timedBy },
  ], rows, { sort: [rows.some((row) => row.expected_busbw !== null) ? 11 : 10, -1], limit: 24 });
}

/**
 * Of NCCL's model. What reduces besides GPUs may exceed the links.
 * @type {import('#page/dom').Column<OperationClass>}
 */
const expected = {
  title: html`of_<br>expected`, number: true, key: (row) => row.expected_share ?? -1,
  cell: (row) => html`<span title="${gigabytes(row.expected_busbw)} GB/s expected">${percent(row.expected_share)}${
    row.reduced_by.length > 0 && ` (${row.reduced_by.join(', ')})`}</span>`,
};

/**
 * @param {OperationClass[]} rows
 * @returns {import('#page/dom').Column<OperationClass>[]}
 */
function ofBaseline(rows) {
  if (rows.every((row) => row.baseline === null)) return [];
  return [{ title: html`of_base-<br>line, %`, number: true, key: (row) => row.baseline?.share ?? -1,
    cell: (row) => number((row.baseline?.share ?? NaN) * 100) }];
}

/** @returns {import('#page/dom').Column<OperationClass>[]} */
function quantiles() {
  return /** @type {[string, 'median' | 'p99' | 'max'][]} */ ([['median', 'median'], ['p99', 'p99'], ['max', 'max']])
    .map(([title, name]) => ({
      title, number: true, key: (row) => row.duration_ns?.[name] ?? -1,
      cell: (row) => duration(row.duration_ns?.[name] ?? null),
    }));
}

/** @param {OperationClass} row */
function timedBy({ timing, count, unfinished }) {
  const sources = Object.entries(timing);
  if (sources.length === 1) return sources[0][0];
  return sources.map(([source, times]) => `${source} ${percent(times / (count - unfinished))}`).join(', ');
}

/** Whether of some time it is not known whether it was waiting. @param {Budget} budget */
export const isUnknown = ({ unclear_ns: unclear, not_compared_ns: rest }) => unclear + rest > 0;

/** @param {Model} model */
export function timeByRank({ report }) {
  const rows = report.ranks;
  if (rows.every(({ budget }) => budget.operations_ns === 0)) return;
  const worst = report.causes.find(({ kind }) => kind === 'late-rank')?.rank ?? null;
  const isHang = report.verdict.finding === 'unfinished';
  const split = rows.some((row) => row.budget.waiting_ns + row.budget.transfer_ns > 0);
  const isSeen = rows.some((row) => row.budget.waiting_ns > 0);
  const isKnown = isSeen || !rows.some((row) => isUnknown(row.budget));
  const element = section('time', 'Waiting and transfer, by rank', 'nccl-otf2 stats --by ranks', !split ?
    html`With one rank, or without comparable clocks, nobody is seen to wait for another.` :
    html`${isHang && 'Of what ended. '}${isSeen ? leastWaiting(rows) : shortest(rows)}`,
  { half: true, open: split && !isHang });
  const exposed = new Map((report.overlap ?? []).map((row) => [row.rank, row.exposed_ns]));
  keys(element, rows.map((row) => row.budget), 'transfer', 'moved');
  const most = Math.max(...rows.map((row) => row.budget.operations_ns), 1);
  const all = rows.map((row, index) => ({ ...row, index }));
  /** @type {import('#page/dom').Column<typeof all[0]>[]} */
  const columns = [
    { title: 'rank', head: true, key: (row) => row.index, cell: (row) => row.name },
    { title: 'host', key: (row) => row.host, cell: (row) => row.host },
    { title: '', style: 'width:46%', cell: (row) => budgetBar(row.budget, most, row.name) },
    { title: 'waiting', number: true, key: (row) => row.budget.waiting_ns,
      cell: (row) => duration(isKnown ? row.budget.waiting_ns : null) },
    { title: 'transfer', number: true, key: (row) => row.budget.transfer_ns,
      cell: (row) => duration(split ? row.budget.transfer_ns : null) },
    { title: 'operations', number: true, key: (row) => row.budget.operations_ns,
      cell: (row) => duration(row.budget.operations_ns) },
    { title: 'of the run, %', number: true, key: (row) => row.budget.operations_ns,
      cell: (row) => number((row.budget.operations_ns / Math.max(1, report.run.duration_ns)) * 100, 1) },
  ];
  if (exposed.size > 0) {
    columns.splice(6, 0, { title: 'exposed', number: true, key: (row) => exposed.get(row.index) ?? -1,
      cell: (row) => duration(exposed.get(row.index) ?? null) });
  }
  fillTable(add(element, 'table', 'tight'), 'Time by rank', columns, all,
    { sort: [isSeen ? 3 : 5, 1], limit: 16, mark: (row) => row.index === worst });
}

/** @typedef {import('../model').Rank} Rank */
/** @param {Rank[]} rows @param {'waiting_ns' | 'operations_ns'} part */
const leastOf = (rows, part) => ({
  row: rows.reduce((a, b) => (b.budget[part] < a.budget[part] ? b : a)),
  middle: median(rows.map((row) => row.budget[part])) });

/** @param {Rank[]} rows */
function leastWaiting(rows) {
  const { row: { name, budget }, middle: others } = leastOf(rows, 'waiting_ns');
  return html`Sorted by waiting: who waits least is whom the others wait for. <b>${capital(name)} waits ${
    duration(budget.waiting_ns)}, the median rank ${duration(others)}.</b>`;
}

/** Where no wait is seen. @param {Rank[]} rows */
function shortest(rows) {
  if (!rows.some(({ budget }) => isUnknown(budget))) return html`<b>No rank waits for another.</b>`;
  const { row: { name, budget }, middle: others } = leastOf(rows, 'operations_ns');
  return html`<b>Who waits for whom is not known: arrivals cannot be told apart, or are not compared.</b> Sorted by time
    in operations: who waits for others is longer in them. ${capital(name)} is in them for ${
    duration(budget.operations_ns)}, the median rank for ${duration(others)}.`;
}
