// Who entered what a job hangs in, and who did not.

import { add, fill, fillTable, section } from '#page/dom';
import { capital, directoryOf, duration, NONE, number, pathText } from '#page/format';
import { html, prose } from '#page/html';

/** @typedef {import('../model').Model} Model */
/** @typedef {NonNullable<Model['hang']>} Hang */
/** @typedef {Hang['communicators'][0]} Communicator */
/** @typedef {Communicator['sequences'][0]} Sequence */
/** @typedef {Sequence['ranks'][0]} Place */

const SHOWN = 32;
const MOST_COMMUNICATORS = 8;

/** @param {Model} model */
export function hang(model) {
  const { hang: found, report } = model;
  if (!found) return;
  const all = found.communicators.flatMap((communicator) => communicator.sequences
    .filter((sequence) => sequence.first_incomplete || sequence.mismatch || sequence.position_unknown.length > 0)
    .map((sequence) => ({ communicator, sequence })));
  const messages = found.communicators.flatMap((communicator) => communicator.messages);
  if (all.length === 0 && messages.length === 0) return;
  const element = section('hang', titleOf(model), `nccl-otf2 hang ${directoryOf(report.run.anchor)}`,
    html`${all.slice(0, 1).map((one) => html`<b>${prose(says(one))}</b>`)}`, { open: 'always' });
  all.slice(0, MOST_COMMUNICATORS).forEach((one, at) => {
    if (at > 0) fill(add(element, 'h3'), html`${prose(says(one))}`);
    table(element, one, found);
  });
  if (all.length > MOST_COMMUNICATORS) {
    fill(add(element, 'p', 'u'), html`${number(all.length - MOST_COMMUNICATORS)} more communicators: <code>nccl-otf2
      hang --all</code>`);
  }
  list(element, 'Messages that did not arrive', messages.map(({ text }) => text));
  list(element, 'Not known', found.unknown);
}

/** What the section is called. @param {Model} model */
export const titleOf = ({ hang: found }) => (found?.communicators.some(({ sequences, messages }) =>
  messages.length > 0 || sequences.some((sequence) => sequence.first_incomplete)) ?
  'Who entered, and who did not' : 'Who called what');

/** The ranks that a hang's verdict names, else the first cause's: indices of the report's. @param {Model} model */
export function suspects({ hang: found, report: { ranks, causes } }) {
  if (found?.verdict.found) return (found.verdict.ranks ?? []).map((rank) =>
    ranks.findIndex(({ number: own }) => own === rank)).filter((at) => at >= 0);
  const [cause] = causes;
  return cause?.rank === null || cause?.rank === undefined || cause.link ? [] : [cause.rank];
}

/**
 * Operations of which the recording has the call only, and which a hang kept from ending: from which of NCCL's numbers
 * on, by the id of their location and their function. @param {Model} model
 */
export function notEnded({ hang: found, report: { communicators, ranks } }) {
  const from = /** @type {Map<string, number>} */ (new Map());
  for (const { name, sequences } of found?.communicators ?? []) {
    const members = ranks.flatMap((rank) => rank.members).filter(({ communicator }) =>
      communicators[communicator]?.name === name);
    for (const { first_incomplete: first, entered } of sequences) {
      if (!first || first.sequence === null || first.function === null) continue;
      for (const { rank, location } of members) {
        if (entered.includes(rank)) from.set(`${location} ${first.function}`, first.sequence);
      }
    }
  }
  return from;
}

/** @param {HTMLElement} element @param {string} title @param {string[]} lines */
function list(element, title, lines) {
  if (lines.length === 0) return;
  if (title) fill(add(element, 'h3'), html`${title}`);
  fill(add(element, 'ul', 'because'), html`${lines.slice(0, SHOWN).map((line) => html`<li>${prose(line)}</li>`)}`);
}

/** @param {{ communicator: Communicator, sequence: Sequence }} one */
function says({ communicator, sequence }) {
  const { first_incomplete: first, mismatch, entered, not_entered: absent, ranks } = sequence;
  if (mismatch) return capital(mismatch.text);
  const lost = sequence.position_unknown.length;
  if (!first) return `${communicator.name}: it is not known where ${number(lost)} ranks are`;
  const what = `${first.function ?? 'collective'} #${first.position} of ${communicator.name}`;
  if (absent.length === 0) return `All ${number(entered.length)} ranks entered ${what}, and it did not end`;
  const who = named(ranks.filter(({ rank }) => absent.includes(rank)).map(numberOf));
  return `${number(entered.length)} of ${number(entered.length + absent.length)} ranks entered ${what}; ${who} did not`;
}

/** @param {number[]} ranks */
const named = (ranks) => (ranks.length > 6 ? `${number(ranks.length)} ranks` :
  `rank${ranks.length > 1 ? 's' : ''} ${ranks.join(', ')}`);

const numberOf = (/** @type {Place} */ { job_rank: own, rank }) => own ?? rank;

/** What the proxy waits for is behind it. @param {Place} row */
function whereOf({ text }) {
  const [head, ...rest] = text.split(/; (?=proxy: )/);
  return html`${prose(head)}${rest.length > 0 && html`<details class="u"><summary>what its proxy waits for</summary>${
    prose(rest.join('; '))}</details>`}`;
}

/** @param {HTMLElement} element @param {{ communicator: Communicator, sequence: Sequence }} one @param {Hang} found */
function table(element, one, found) {
  const { communicator, sequence: { ranks, entered, not_entered: absent } } = one;
  const { last_complete: last, mismatch, first_incomplete: first } = one.sequence;
  fill(add(element, 'p', 'small'), html`${last && html`The last that all completed: ${
    last.function ?? 'collective'} #${last.position}.`}${communicator.ranks_missing.length > 0 && html` <span
    class="hot">${number(communicator.ranks_missing.length)} ranks of it were not recorded.</span>`}`);
  list(element, '', (mismatch?.calls ?? []).map(({ ranks: own, call, function: name }) =>
    `${named(own)}: ${call || name}`));
  const state = (/** @type {Place} */ { rank }) =>
    (absent.includes(rank) ? 'no' : entered.includes(rank) ? 'yes' : 'not known');
  const ranges = (/** @type {Place} */ place) => found.ranks?.find(({ process, job_rank: rank }) =>
    process === place.process && (rank === null || rank === place.job_rank))?.ranges ?? [];
  /** @type {import('#page/dom').Column<Place>[]} */
  const columns = [
    { title: 'rank', head: true, key: numberOf, cell: (row) => `rank ${numberOf(row)}` },
    ...(first ? [{ title: 'entered', key: state, cell: (/** @type {Place} */ row) =>
      (state(row) === 'no' ? html`<b class="hot">no</b>` : state(row)) }] : []),
    { title: html`since its<br>last call`, number: true, key: (row) => row.for_ns ?? -1,
      cell: (row) => duration(row.for_ns) },
    { title: 'in the program', className: 'wrap', key: (row) => pathText(ranges(row).map(({ name }) => name)),
      cell: (row) => pathText(ranges(row).map(({ name }) => name)) || NONE },
    { title: 'where', className: 'wrap', cell: (row) => whereOf(row) },
    { title: 'process', key: (row) => row.process, cell: (row) => `${row.process}, ${row.process_state}` },
  ];
  const rows = [...ranks].sort((a, b) => Number(entered.includes(a.rank)) - Number(entered.includes(b.rank)) ||
    (b.for_ns ?? 0) - (a.for_ns ?? 0));
  fillTable(add(element, 'table', 'tight'), `Ranks of ${communicator.name}`, columns, rows,
    { limit: SHOWN, mark: (row) => state(row) === 'no' });
}
