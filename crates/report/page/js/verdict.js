// The head of the page: which run, the verdict, its evidence, what else was found.

import { byId, fill } from '#page/dom';
import { capital, date, directoryOf, duration, number, percent } from '#page/format';
import { suspects, titleOf } from '#page/hang';
import { html, prose, unit } from '#page/html';
import { countPairs } from '#page/pairs';
import { shownPhases } from '#page/program';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Cause} Cause */

const NAMES = 'ranks?|all ranks|[\\d ]+ ranks|the link|the network interface|channel|GPU';
const WHO = new RegExp(`^(HANG|MISMATCH|DIED|QUIET|(${NAMES}) .*?(?= (is|are|was|were|may|stalled) ))`, 'i');

/** Lines of evidence that are shown at first: what the verdict rests on most. */
const SHOWN = 3;

/** @param {Model} model */
export function verdict(model) {
  const { report: { verdict: { line, basis } }, hang } = model;
  facts(model);
  // Who it is carries the colour, or that the job hung.
  const who = WHO.exec(line)?.[0] ?? '';
  const next = hang?.verdict.next ?? null;
  // The advice is said once.
  const isAdvice = (/** @type {string} */ sentence) => next !== null &&
    sentence.toLowerCase().startsWith(next.toLowerCase());
  const found = basis.filter((sentence) => !isAdvice(sentence)).map((text) => `${capital(text).replace(/\.$/, '')}.`);
  byId('verdict').classList.toggle('hang', /^(HANG|DIED):/.test(line));
  fill(byId('verdict'), html`<h2 class="sr">Verdict</h2>
    <p class="v"><em>${prose(who)}</em>${prose(line.slice(who.length))}</p>
    ${lines(found)}${whatNext(model, next)}
    ${findings(model)}`);
}

/** Evidence, the most convincing first; what limits it is behind it. @param {string[]} all */
export function lines(all) {
  const list = (/** @type {string[]} */ some) =>
    html`<ul class="because">${some.map((one) => html`<li>${prose(one)}</li>`)}</ul>`;
  const rest = all.slice(SHOWN);
  return html`${list(all.slice(0, SHOWN))}${rest.length > 0 && html`<details class="rest"><summary>${rest.length} more
    line${rest.length > 1 && 's'}: what the numbers rest on, and what limits them</summary>${list(rest)}</details>`}`;
}

/** What to do next: one command, or where in the page to look. @param {Model} model @param {string | null} advice */
function whatNext({ report }, advice) {
  const { run: { anchor }, verdict: { finding }, causes: [cause] } = report;
  if (advice !== null) return html`<p class="next">Next: ${prose(advice)}</p>`;
  const verb = { unfinished: 'hang', unclear: 'info', nothing: 'info' }[/** @type {'unclear'} */ (finding)];
  if (verb) return html`<p class="next">Next: <code>nccl-otf2 ${verb} ${directoryOf(anchor)}</code></p>`;
  if (!cause) return '';
  const { section, label } = placeOf(cause, report);
  const links = /** @type {[string, string][]} */ ([['timeline', 'the moment in the timeline'], [section, label],
    ['anomalies', 'the worst cases']]).filter(([id]) => document.getElementById(id));
  const one = (/** @type {[string, string]} */ [id, text], /** @type {number} */ at) =>
    html`${at > 0 && ', '}<a href="#${id}">${text}</a>`;
  return links.length > 0 && html`<p class="next">Next: ${links.map(one)}</p>`;
}

/** The section that shows a cause. @param {Cause} cause @param {Model['report']} report */
function placeOf({ kind, link }, { ranks }) {
  if (kind === 'late-rank' && !document.getElementById('skew')) return { section: 'time', label: 'waiting by rank' };
  if (kind === 'late-rank') return { section: 'skew', label: 'lateness over time' };
  if (kind === 'slow-nic') return { section: 'pairs', label: 'pairs of ranks' };
  if (kind === 'slow-channel') return { section: 'channels', label: `channel ${link?.channel}` };
  if (kind !== 'slow-pair' && kind !== 'slow-connection') return { section: 'anomalies', label: 'anomalies' };
  if (link === null) return { section: 'pairs', label: 'pairs of ranks' };
  return { section: 'pairs', label: `pair ${pairOf(link, ranks)}` };
}

/** @param {Cause['link']} link @param {import('../model').Rank[]} ranks */
const pairOf = (link, ranks) => [link?.from ?? null, link?.to ?? null].map((at) =>
  (at === null ? '?' : ranks[at].number ?? ranks[at].name)).join(' → ');

/** @param {Model} model */
function facts({ report: { run, ranks, communicators, completeness }, title, part }) {
  const many = (/** @type {number} */ count, /** @type {string} */ what) =>
    html`<span><b>${number(count)}</b> ${what}${count === 1 ? '' : 's'}</span>`;
  document.title = `${title}: NCCL report`;
  fill(byId('facts'), html`<h1>${title}</h1>
    ${run.start_ns !== null && html`<span>${date(run.start_ns)}</span>`}
    ${many(run.hosts.length, 'host')}${many(ranks.length, 'rank')}${many(communicators.length, 'communicator')}
    ${run.nccl_versions.length > 0 && html`<span>NCCL <b>${run.nccl_versions.join(', ')}</b></span>`}
    <span><b>${duration(run.duration_ns)}</b></span>${many(run.operations, 'operation')}${partOf(part)}${
    !isWhole(completeness) && html`<a class="hot" href="#completeness">the recording is not complete</a>`}`);
}

/** The part of the run that the page is about. @param {Model['part']} part */
function partOf({ from_ns: from, to_ns: to, ranks }) {
  const words = [from !== null && `from ${duration(from)}`, to !== null && `to ${duration(to)}`,
    ranks.length > 0 && `rank${ranks.length === 1 ? '' : 's'} ${ranks.join(', ')}`].filter(Boolean);
  return words.length > 0 && html`<span class="hot">only ${words.join(' ')}</span>`;
}

/** @param {Model} model */
function findings({ report }) {
  const exposed = exposedShare(report.overlap);
  const row = (/** @type {number | null} */ ns, /** @type {unknown} */ share, /** @type {unknown} */ text,
    /** @type {string} */ section, /** @type {string} */ label) => html`<tr><td class="n">${duration(ns)}</td>
    <td class="n">${share}</td><td>${text}</td><td class="go n">${
      document.getElementById(section) && html`<a href="#${section}">${label} ↓</a>`}</td></tr>`;
  const causes = report.causes.slice(1, 5);
  const { rest } = report.verdict;
  const others = html`${exposed !== null && html`<p class="because"><b>${percent(exposed)} of communication time is
    exposed:</b> no other kernel runs on the GPU meanwhile, see <a href="#overlap">overlap</a>.</p>`}${
    rest !== null && report.causes.length < 6 && html`<p class="because">${unit(prose(rest))}</p>`}`;
  if (causes.length === 0) return others;
  return html`<table class="finds"><caption class="sr">Findings, by the time that all ranks lost</caption>
    <thead><tr><th class="n" scope="col">lost</th><th class="n" scope="col">of time in operations</th>
    <th scope="col">also found; lost times overlap, since ranks wait longer for what is slow, too: they do not add up
    </th>
    <th scope="col"><span class="sr">evidence</span></th></tr></thead><tbody>
    ${causes.map((cause) => {
      const { section, label } = placeOf(cause, report);
      return row(cause.lost_ns, percent(cause.share, 1), prose(cause.sentence), section, label);
    })}
    </tbody></table>${others}`;
}

/** Sections for the contents beside the page. @param {Model} model @returns {[string, string, unknown][]} */
export function sections(model) {
  const { report, hang } = model;
  const [rank = null, ...others] = suspects(model);
  const exposed = exposedShare(report.overlap);
  const hot = (/** @type {unknown} */ text) => html`<i class="hot">${text}</i>`;
  const count = (/** @type {number | undefined} */ size) => html`<i>${number(size)}</i>`;
  const late = report.causes.find(({ kind }) => kind === 'late-rank')?.rank ?? null;
  const lost = report.completeness.callbacks_lost;
  const all = /** @type {[string, string, unknown][]} */ ([
    ['verdict', 'Verdict', rank !== null && others.length === 0 && hot(report.ranks[rank].name)],
    ['timeline', 'Timeline', ''],
    ['hang', titleOf(model).split(',')[0], hang?.verdict.found && hot(hang.verdict.kind)],
    ['time', 'Time by rank', count(report.ranks.length)],
    ['skew', 'Who is late', late !== null && hot(duration(report.ranks[late].lost_ns || null))],
    ...linksOf(report, hot, count),
    ['phases', 'Phases', count(shownPhases(report).length)], ['steps', 'Steps', count(report.steps?.steps.length)],
    ['path', 'Critical path', count(report.critical_path?.parts.length)],
    ['operations', 'Operations', count(report.operations.length)],
    ['overlap', 'Overlap', html`<i>${percent(exposed)}</i>`],
    ['making', 'Making communicators', count(report.communicator_calls.length)],
    ['anomalies', 'Anomalies', count(report.anomalies.length)],
    ['completeness', 'Completeness', lost > 0 && hot(`${number(lost)} lost`)], ['how', 'How to read', '']]);
  return all.filter(([id]) => document.getElementById(id));
}

/** Sections about links. @param {Model['report']} report @param {(text: unknown) => unknown} hot
 * @param {(size: number) => unknown} count @returns {[string, string, unknown][]} */
function linksOf(report, hot, count) {
  const cause = (/** @type {Cause['kind']} */ wanted) => report.causes.find(({ kind }) => kind === wanted);
  const [pair, channel] = [cause('slow-pair') ?? cause('slow-connection'), cause('slow-channel')];
  return [['pairs', 'Pairs', pair ? hot(pairOf(pair.link, report.ranks)) : count(countPairs(report))],
    ['channels', 'Channels', channel ? hot(channel.link?.channel) : count(report.channels.length)],
    ['wires', 'Links', cause('slow-nic') ? hot('slow') : count(report.nics.length)]];
}

/** Whether nothing that NCCL reported is missing. @param {import('../model').Completeness} found */
export const isWhole = (found) => found.callbacks_lost === 0 && found.problem_count === 0 &&
  found.ranks_missing === 0 && found.parts_left_out.length === 0 && found.switches === 0;

/** The share of communication that no other kernel hides. @param {import('../model').Overlap[] | null} rows */
export function exposedShare(rows) {
  const all = (rows ?? []).reduce((sum, row) => sum + row.communication_ns, 0);
  return all === 0 ? null : (rows ?? []).reduce((sum, row) => sum + row.exposed_ns, 0) / all;
}
