// The page of two runs: what differs in B, and whether that is more than chance.

import { add, byId, colourName, contents, dot, fill, fillTable, section } from '#page/dom';
import { date, duration, NONE, number, pathText, percent, sizes } from '#page/format';
import { html, prose, quotes } from '#page/html';
import { budgetBar } from '#page/operations';
import { lines } from '#page/verdict';

/** @typedef {import('../model').DiffModel} DiffModel */
/** @typedef {import('../model').Comparison} Comparison */
/** @typedef {import('../model').Compared} Compared */
/** @typedef {import('../model').Group} Group */
/** @typedef {import('../model').Kind} Kind */
/** @typedef {import('../model').Difference} Difference */

const OUTCOMES = { slower: 'slower', faster: 'faster', 'no-difference': 'no difference', unclear: 'unclear' };

/** No difference, where only a change by half and more would show. */
const NOT_SHOWN = 'not shown';

/** @param {Pick<Group, 'outcome' | 'is_coarse'>} group */
const said = ({ outcome, is_coarse: isCoarse }) => (isCoarse ? NOT_SHOWN : OUTCOMES[outcome]);

/** With its sign. @param {number | null | undefined} value @param {(value: number) => string} text */
const signed = (value, text) => (value === null || value === undefined ? NONE : (value > 0 ? '+' : '') + text(value));

/** @param {Difference | null} it Shown where the data shows that it is no chance @param {keyof Difference} field */
const shown = (it, field) => (it && (it.outcome === 'slower' || it.outcome === 'faster') ? Number(it[field]) : null);

/** @param {Group} group */
const isCompared = ({ outcome }) => outcome !== 'unclear';

/** @param {DiffModel} model */
export function diff({ comparison, title, tool }) {
  const { sentence, basis, runs, groups } = comparison;
  document.title = `${title}: NCCL runs compared`;
  quotes(comparison.ranges.map(({ path }) => pathText(path)));
  fill(byId('facts'), html`<h1>${title}</h1>${runs.map(({ run, ranks }, at) => html`<span>${'AB'[at]}
    <b>${run.anchor}</b> ${run.start_ns !== null && date(run.start_ns)}, <b>${number(ranks)}</b> rank${
    ranks !== 1 && 's'}</span>`)}`);
  const who = /^(B is (slower|faster)|[AB] did not end)/.exec(sentence)?.[0] ?? '';
  fill(byId('verdict'), html`<h2 class="sr">Verdict</h2><p class="v"><em>${who}</em>${
    prose(sentence.slice(who.length))}</p>
    ${lines(basis)}`);
  operations(comparison);
  ranges(comparison);
  lacking(comparison);
  sideBySide(comparison);
  howTo(comparison, tool);
  const count = (/** @type {unknown} */ text) => html`<i>${text}</i>`;
  const alike = groups.filter(({ outcome: of }) => of === 'no-difference');
  const isHidden = comparison.outcome === 'no-difference' && alike.length > 0 &&
    alike.every(({ is_coarse: isCoarse }) => isCoarse);
  const outcome = isHidden ? NOT_SHOWN : OUTCOMES[comparison.outcome];
  contents([['verdict', 'Verdict', outcome === 'slower' ? html`<i class="hot">${outcome}</i>` : count(outcome)],
    ['operations', 'Operations', count(groups.filter(isCompared).length)],
    ...(comparison.ranges.length > 0 ?
      [/** @type {[string, string, unknown]} */ (['ranges', 'Ranges', count(comparison.ranges.length)])] : []),
    ...(uncompared(comparison).length > 0 ?
      [/** @type {[string, string, unknown]} */ (['lacking', 'Not compared', count(uncompared(comparison).length)])] :
      []), ['runs', 'Both runs', ''],
    ['how', 'How to read', '']]);
  return null;
}

/** @param {Comparison} comparison */
function operations({ groups, runs, confidence }) {
  const [a, b] = runs.map(({ run }) => run.anchor);
  const compared = groups.filter(isCompared);
  const howMany = (/** @type {string} */ wanted) => compared.filter((group) => said(group) === wanted).length;
  const hidden = howMany(NOT_SHOWN);
  const element = section('operations', 'Operations, B against A', `nccl-otf2 diff ${a} ${b}`, compared.length === 0 ?
    html`<b>No operation could be compared.</b>` : html`<b>${howMany('slower')} slower, ${howMany('faster')} faster,
      ${howMany('no difference')} without a difference that the data shows${
      hidden > 0 && `, ${number(hidden)} that cannot show one`}.</b> A collective counts once, with the
      mean of its ranks. Those come first that cost B most time, or save it most.`);
  if (compared.length === 0) {
    fill(add(element, 'p'), html`<a href="#lacking">Why not</a>`);
    return;
  }
  const bounds = compared.flatMap(({ median }) => (median ? interval(median) ?? [] : []));
  const most = Math.min(Math.max(Math.log(1.02), ...bounds.map((share) => Math.abs(ratio(share)))), Math.log(4));
  const keys = add(element, 'div', 'keys');
  fill(keys, html`<span class="key"><i class="hatched"></i>waiting for the last rank</span><span
    class="key">transfer, in the colour of the function; above A, below B</span>`);
  fillTable(add(element, 'table'), 'Operations of both runs', columns(most, confidence), compared, { limit: 40 });
}

/** Logarithm of B ÷ A: twice and half are equally far from 0. @param {number} share */
const ratio = (share) => Math.log1p(Math.max(-0.99, share));

/** The interval of a change as shares of A. @param {Difference} median @returns {[number, number] | null} */
const interval = ({ interval_ns: bounds, a_ns: a }) => (bounds && a > 0 ? [bounds[0] / a, bounds[1] / a] : null);

/** @param {number} most @param {number} confidence @returns {import('#page/dom').Column<Group>[]} */
function columns(most, confidence) {
  const axis = [Math.expm1(-most), 0, Math.expm1(most)].map((share) =>
    html`<span>${signed(share, (value) => percent(value))}</span>`);
  const change = (/** @type {Group} */ { median }) => median?.share ?? null;
  return [
    { title: 'function', head: true, key: (row) => row.b.function,
      cell: (row) => html`${dot(row.b.function)}${row.b.function}` },
    { title: 'ranks', number: true, key: (row) => row.b.ranks, cell: (row) => number(row.b.ranks) },
    { title: 'size', number: true, key: (row) => row.b.bytes_min,
      cell: (row) => sizes(row.b.bytes_min, row.b.bytes_max) },
    { title: 'median A', number: true, key: (row) => row.median?.a_ns ?? -1,
      cell: (row) => duration(row.median?.a_ns ?? null) },
    { title: 'median B', number: true, key: (row) => row.median?.b_ns ?? -1,
      cell: (row) => duration(row.median?.b_ns ?? null) },
    { title: html`change,<br>%`, number: true, key: (row) => change(row) ?? 0,
      cell: (row) => html`<span class="${row.outcome === 'slower' ? 'hot' : ''}">${
        signed(change(row), (share) => number(share * 100, 1))}</span>` },
    { title: html`with its interval (${percent(confidence)} for all together)<span class="axis">${axis}</span>`,
      style: 'width:28%', cell: (row) => intervalBar(row, most) },
    { title: html`p99,<br>%`, number: true, key: (row) => shown(row.p99, 'share') ?? 0,
      cell: (row) => signed(shown(row.p99, 'share'), (share) => number(share * 100, 1)) },
    { title: '', style: 'width:104px', cell: parts },
    { title: 'waiting', number: true, key: (row) => shown(row.waiting, 'difference_ns') ?? 0,
      cell: (row) => signed(shown(row.waiting, 'difference_ns'), duration) },
    { title: 'transfer', number: true, key: (row) => shown(row.transfer, 'difference_ns') ?? 0,
      cell: (row) => signed(shown(row.transfer, 'difference_ns'), duration) },
    { title: html`count<br>A`, number: true, key: (row) => row.a.count, cell: (row) => number(row.a.count) },
    { title: html`count<br>B`, number: true, key: (row) => row.b.count, cell: (row) => number(row.b.count) },
    { title: 'in B', key: said, cell: said },
  ];
}

/** The change of a median as a point on its interval. @param {Group} group @param {number} most */
function intervalBar({ median, outcome }, most) {
  if (!median || median.share === null) return NONE;
  const place = (/** @type {number} */ share) =>
    Math.max(0, Math.min(100, 50 + (50 * ratio(share)) / most));
  const [low, high] = (interval(median) ?? [median.share, median.share]).map(place);
  const text = (interval(median) ?? []).map((share) => signed(share, (value) => percent(value, 1))).join(' to ');
  return html`<div class="interval ${outcome}" role="img" title="${text}" aria-label="${text}"><i
    style="left:${low.toFixed(2)}%;width:${(high - low).toFixed(2)}%"></i><b
    style="left:${place(median.share).toFixed(2)}%"></b></div>`;
}

/** Waiting and transfer of A above those of B. @param {Group} group */
function parts({ waiting, transfer, b }) {
  if (!waiting || !transfer) return NONE;
  const runs = /** @type {const} */ (['a_ns', 'b_ns']);
  const most = Math.max(...runs.map((run) => waiting[run] + transfer[run]));
  return html`<div class="both-runs">${runs.map((run, at) => budgetBar({ waiting_ns: waiting[run],
    transfer_ns: transfer[run], unclear_ns: 0 }, most, `${b.function} in ${'AB'[at]}`, colourName(b.function)))}</div>`;
}

/** @param {Comparison} comparison */
function ranges({ ranges: rows, runs }) {
  if (rows.length === 0) return;
  const [a, b] = runs.map(({ run }) => run.anchor);
  const element = section('ranges', 'Ranges of the program, B against A', `nccl-otf2 diff ${a} ${b}`, html`How long
    threads were in the ranges that the program names through NVTX, and are in both runs fifty times and more.`);
  const change = (/** @type {Difference} */ { share }) => signed(share, (value) => number(value * 100, 1));
  const outcomeOf = (/** @type {typeof rows[0]} */ { median, is_coarse: isCoarse }) =>
    said({ outcome: median.outcome, is_coarse: isCoarse });
  fillTable(add(element, 'table', 'tight'), 'Ranges of both runs', [
    { title: 'range', head: true, className: 'wrap', key: ({ path }) => path.join(),
      cell: ({ path }) => pathText(path) },
    { title: 'median A', number: true, key: (row) => row.median.a_ns,
      cell: (row) => duration(row.median.a_ns) },
    { title: 'median B', number: true, key: (row) => row.median.b_ns,
      cell: (row) => duration(row.median.b_ns) },
    { title: 'change, %', number: true, key: ({ median }) => median.share ?? 0, cell: ({ median }) =>
      html`<span class="${median.outcome === 'slower' ? 'hot' : ''}">${change(median)}</span>` },
    { title: 'its interval, %', number: true, cell: ({ median }) => (interval(median) ?? []).map((share) =>
      signed(share, (value) => number(value * 100, 1))).join(' to ') },
    { title: 'count A', number: true, key: (row) => row.a, cell: (row) => number(row.a) },
    { title: 'count B', number: true, key: (row) => row.b, cell: (row) => number(row.b) },
    { title: 'in B', key: outcomeOf, cell: outcomeOf },
  ], rows, { limit: 24 });
}

/** What only one run has, and what is too little. @param {Comparison} comparison */
function uncompared({ groups, only_a: a, only_b: b }) {
  const row = (/** @type {Kind} */ kind, /** @type {string} */ why, /** @type {string} */ counts) =>
    ({ kind, why, counts });
  return [
    ...a.map((kind) => row(kind, 'only in A', number(kind.count))),
    ...b.map((kind) => row(kind, 'only in B', number(kind.count))),
    ...groups.filter((group) => !isCompared(group)).map((group) =>
      row(group.b, group.reason ?? '', `${number(group.a.count)}, ${number(group.b.count)}`)),
  ];
}

/** @param {Comparison} comparison */
function lacking(comparison) {
  const rows = uncompared(comparison);
  if (rows.length === 0) return;
  const element = section('lacking', 'What could not be compared', '', html`Operations are compared where both runs have
    them: on communicators of the same shape, of the same function, size class and kind of timing.`);
  fillTable(add(element, 'table'), 'What could not be compared', [
    { title: 'function', head: true, key: ({ kind }) => kind.function,
      cell: ({ kind }) => html`${dot(kind.function)}${kind.function}` },
    { title: 'ranks', number: true, key: ({ kind }) => kind.ranks, cell: ({ kind }) => number(kind.ranks) },
    { title: 'hosts', number: true, key: ({ kind }) => kind.hosts, cell: ({ kind }) => number(kind.hosts) },
    { title: 'size', number: true, key: ({ kind }) => kind.bytes_min,
      cell: ({ kind }) => sizes(kind.bytes_min, kind.bytes_max) },
    { title: 'timing', key: ({ kind }) => kind.timing, cell: ({ kind }) => kind.timing },
    { title: 'count', number: true, key: ({ kind }) => kind.count, cell: ({ counts }) => counts },
    { title: 'communicators', className: 'wrap', cell: ({ kind }) => kind.communicators.join(', ') },
    { title: 'why', className: 'wrap', key: ({ why }) => why, cell: ({ why }) => why },
  ], rows, { limit: 24 });
}

/** What is expected to be equal comes first; what differs of it is marked. @param {Comparison} comparison */
function sideBySide({ runs }) {
  const list = (/** @type {string[]} */ names, most = 8) => (names.length === 0 ? NONE :
    `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${number(names.length - most)} more` : ''}`);
  const facts = /** @type {[string, (it: Compared) => unknown, boolean?][]} */ ([
    ['NCCL release', ({ run }) => list(run.nccl_versions), true], ['ranks', ({ ranks }) => number(ranks), true],
    ['processes', ({ run }) => number(run.processes), true], ['hosts', ({ run }) => number(run.hosts.length), true],
    ['host names', ({ run }) => list(run.hosts), true],
    ['recorded', ({ run }) => run.recorded.join(', ').replaceAll(',', ', '), true],
    ['command', ({ run }) => list(run.commands, 1), true],
    ['begin', ({ run }) => (run.start_ns === null ? NONE : date(run.start_ns))],
    ['length', ({ run }) => duration(run.duration_ns)], ['operations', ({ run }) => number(run.operations)],
    ['collectives with comparable arrivals', ({ run }) => `${number(run.comparable)} of ${number(run.instances)}`],
    ['archive', ({ run }) => run.anchor],
  ]);
  const rows = facts.map(([name, value, equal]) => ({ name, values: runs.map((run) => String(value(run))), equal }));
  // Temporary files have other names in each run.
  const lasting = (/** @type {string} */ text) => text.replaceAll(/\/tmp\/\S+/gu, '/tmp');
  const differs = (/** @type {typeof rows[0]} */ { equal, values: [a, b] }) => (
    equal === true && lasting(a) !== lasting(b));
  const names = rows.filter(differs).map(({ name }) => name);
  const element = section('runs', 'Both runs', 'nccl-otf2 info', names.length === 0 ?
    html`<b>Release, ranks, hosts, command and what was recorded are equal.</b>` : html`<b>They differ in
      ${names.join(', ')}.</b> What differs beside the change that you want to judge may be the reason for what is seen
      above.`);
  fillTable(add(element, 'table', 'side'), 'Both runs', [
    { title: '', head: true, cell: ({ name }) => name },
    { title: 'A', style: 'width:40%', className: 'wrap', cell: ({ values }) => values[0] },
    { title: 'B', style: 'width:40%', className: 'wrap', cell: ({ values }) => values[1] },
  ], rows, { mark: differs });
}

/** @param {Comparison} comparison @param {string} tool */
function howTo({ runs, confidence }, tool) {
  const [a, b] = runs.map(({ run }) => run.anchor);
  const words = [
    ['change', 'of the median time of a collective in B against A; right of the middle B takes longer'],
    ['interval', `with a probability of ${percent(confidence)} all intervals hold their true values; what varies from `
      + 'run to run, such as nodes and other jobs, is not in them'],
    ['no difference', 'the interval holds 0, or the change is within the clocks’ error'],
    ['not shown', 'no difference, where only a change by half and more would show'],
    ['waiting', 'from a rank’s arrival to that of the last rank; hatched'],
    ['transfer', 'from the last arrival to the end; solid. The medians of both need not add up to that of the whole'],
    ['waiting, transfer, p99', `${NONE} where the data shows no change`],
    ['count', 'collectives that ended; of sends and receives the most that a rank had'],
  ];
  const element = section('how', 'How to read and reproduce this', '', html`Compare two runs of the same program on the
    same nodes first: what that shows is no finding.`, { open: false });
  fill(add(element, 'div', 'columns'), html`<div><h3>Words</h3><dl class="kv words">${words.map(([word, means]) =>
    html`<dt><b>${word}</b></dt><dd>${means}</dd>`)}</dl></div><div><h3>Commands</h3><pre>
nccl-otf2 report ${a} --diff ${b}
nccl-otf2 diff ${a} ${b}
nccl-otf2 diff ${a} ${b} --fail-if-slower 5%
nccl-otf2 report ${a}
nccl-otf2 report ${b}</pre><p class="small u">Made by ${tool}.</p></div>`);
}
