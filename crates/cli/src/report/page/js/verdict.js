// The head of the page: which run, the verdict, what else was found.

import { byId, fill } from '#page/dom';
import { date, NONE, number, percent, seconds } from '#page/format';
import { html, unit } from '#page/html';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Cause} Cause */

/** @param {Model} model */
export function verdict(model) {
  const { report } = model;
  facts(model);
  // Who it is carries the colour.
  const who = /^(rank \S+( on \S+)?|channel \S+|\S+ → \S+)/i.exec(report.verdict.sentence)?.[0] ?? '';
  fill(byId('verdict'), html`<h2 class="sr">Verdict</h2>
    <p class="v"><em>${who}</em>${report.verdict.sentence.slice(who.length)}</p>
    <p class="because">${report.verdict.basis.join(' ')}${evidence(report.causes[0])}</p>
    ${findings(model)}`);
}

/** @param {Cause | undefined} cause */
function evidence(cause) {
  if (!cause) return '';
  return html` See <a href="#${sectionOf(cause)}">${labelOf(cause)}</a> or
    <a href="#anomalies">its worst cases, with their place in the timeline</a>.`;
}

/** @param {Cause} cause */
function sectionOf({ kind }) {
  if (kind === 'late-rank') return 'skew';
  if (kind === 'slow-channel') return 'channels';
  return kind === 'slow-pair' || kind === 'slow-connection' ? 'pairs' : 'anomalies';
}

/** @param {Cause} cause */
function labelOf({ kind }) {
  if (kind === 'late-rank') return 'lateness over time';
  if (kind === 'slow-channel') return 'channels';
  return kind === 'slow-pair' || kind === 'slow-connection' ? 'pairs' : 'what stands out';
}

/** @param {Model} model */
function facts({ report: { run, ranks, communicators }, title }) {
  const many = (/** @type {number} */ count, /** @type {string} */ what) =>
    html`<span><b>${number(count)}</b> ${what}${count === 1 ? '' : 's'}</span>`;
  document.title = `${title}: NCCL report`;
  fill(byId('facts'), html`<h1>${title}</h1>
    ${run.start_ns > 1e18 && html`<span>${date(run.start_ns)}</span>`}
    ${many(run.hosts.length, 'host')}${many(ranks.length, 'rank')}${many(communicators.length, 'communicator')}
    ${run.nccl_versions.length > 0 && html`<span>NCCL <b>${run.nccl_versions.join(', ')}</b></span>`}
    <span><b>${seconds(run.duration_ns)}</b> s</span>${many(run.operations, 'operation')}`);
}

/** @param {Model} model */
function findings({ report }) {
  const lost = Object.values(report.completeness.kinds).reduce((sum, kind) => sum + (kind.lost ?? 0), 0);
  const exposed = exposedShare(report.overlap);
  const row = (/** @type {number | null} */ ns, /** @type {unknown} */ share, /** @type {unknown} */ text,
    /** @type {string} */ section, /** @type {string} */ label) => html`<tr><td class="n">${seconds(ns)}</td>
    <td class="n">${share}</td><td style="padding-left:20px">${text}</td>
    <td class="go n"><a href="#${section}">${label} ↓</a></td></tr>`;
  const causes = report.causes.slice(1, 5);
  const { finding } = report.verdict;
  const isJudged = finding === 'causes' || finding === 'healthy';
  const rest = report.causes.length === 0 ? 'Nothing stands out' : 'Nothing else stands out';
  if (!isJudged && exposed === null) return '';
  return html`<table class="finds"><caption class="sr">Findings, by the time that all ranks lost</caption>
    <thead><tr><th class="n" scope="col" style="width:60px">lost, s</th>
    <th class="n" scope="col" style="width:88px">of comm., %</th>
    <th scope="col" style="padding-left:20px">also found</th>
    <th scope="col" style="width:140px"><span class="sr">evidence</span></th></tr></thead><tbody>
    ${causes.map((cause) => row(cause.lost_ns, number(cause.share * 100, 1), cause.sentence, sectionOf(cause),
      labelOf(cause)))}
    ${exposed !== null && row(null, NONE, html`<b>${percent(exposed)} of communication time is exposed:</b> no other
      kernel runs on the GPU meanwhile.`, 'overlap', 'overlap')}
    ${isJudged && report.causes.length < 6 && row(0, 0, unit(`${rest}; ${lost === 0 ? 'all that was seen is here' :
      `all that was seen is here but ${number(lost)} events`}.`), 'completeness', 'completeness')}
    </tbody></table>`;
}

/**
 * The contents beside the page, which follow the scrolling.
 * @param {Model} model
 */
export function contents({ report }) {
  const [cause] = report.causes;
  const rank = cause?.rank ?? null;
  const exposed = exposedShare(report.overlap);
  const hot = (/** @type {unknown} */ text) => html`<i class="hot">${text}</i>`;
  const count = (/** @type {unknown[]} */ list) => html`<i>${list.length}</i>`;
  const notes = /** @type {Record<string, unknown>} */ ({
    verdict: rank === null ? '' : hot(report.ranks[rank].name),
    operations: count(report.operations), time: count(report.ranks), pairs: count(report.pairs),
    channels: count(report.channels), anomalies: count(report.anomalies),
    overlap: exposed === null ? html`<i>${NONE}</i>` : html`<i>${percent(exposed)}</i>`,
    completeness: report.completeness.callbacks_lost > 0 ?
      hot(`${number(report.completeness.callbacks_lost)} lost`) : '',
  });
  const titles = [['verdict', 'Verdict'], ['operations', 'Operations'], ['time', 'Time by rank'],
    ['skew', 'Who is late'], ['pairs', 'Pairs'], ['channels', 'Channels'], ['overlap', 'Overlap'],
    ['anomalies', 'What stands out'], ['completeness', 'Completeness'], ['timeline', 'Timeline'],
    ['how', 'How to read']];
  fill(byId('contents'), html`${titles.map(([id, title]) =>
    html`<li><a href="#${id}"><span>${title}</span>${notes[id]}</a></li>`)}`);
  follow(titles.map(([id]) => byId(id)));
}

/** The share of communication that no other kernel hides. @param {import('../model').Overlap[] | null} rows */
export function exposedShare(rows) {
  const all = (rows ?? []).reduce((sum, row) => sum + row.communication_ns, 0);
  return all === 0 ? null : (rows ?? []).reduce((sum, row) => sum + row.exposed_ns, 0) / all;
}

/** @param {HTMLElement[]} sections */
function follow(sections) {
  const mark = (/** @type {string} */ id) => document.querySelectorAll('nav a').forEach((link) => {
    if (link.getAttribute('href') === `#${id}`) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  });
  const observer = new IntersectionObserver((changes) => {
    for (const change of changes) if (change.isIntersecting) mark(change.target.id);
  }, { rootMargin: '-8% 0px -82% 0px' });
  sections.forEach((element) => observer.observe(element));
  mark('verdict');
}
