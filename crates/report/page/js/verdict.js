// The head of the page: which run, the verdict, what else was found.

import { byId, fill } from '#page/dom';
import { date, duration, NONE, number, percent, seconds } from '#page/format';
import { html, unit } from '#page/html';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Cause} Cause */

const NAMES = 'ranks?|all ranks|[\\d ]+ ranks|the link|the network interface|channel|GPU';
const WHO = new RegExp(`^(${NAMES}) .*?(?= (is|are|was|were|may|stalled) )`, 'i');

/** @param {Model} model */
export function verdict(model) {
  const { report } = model;
  facts(model);
  // Who it is carries the colour.
  const who = WHO.exec(report.verdict.line)?.[0] ?? '';
  fill(byId('verdict'), html`<h2 class="sr">Verdict</h2>
    <p class="v"><em>${who}</em>${report.verdict.line.slice(who.length)}</p>
    <p class="because">${report.verdict.basis.join(' ')}${evidence(model)}</p>
    ${findings(model)}`);
}

/** @param {Model} model */
function evidence({ report }) {
  const [cause] = report.causes;
  if (!cause) return '';
  const { section, label } = placeOf(cause, report);
  return html` See <a href="#${section}">${label}</a>${report.anomalies.length > 0 && html` or
    <a href="#anomalies">its worst cases, with their place in the timeline</a>`}.`;
}

/** The section that shows a cause. @param {Cause} cause @param {Model['report']} report */
function placeOf({ kind, link }, { ranks }) {
  if (kind === 'unfinished') return { section: 'completeness', label: 'completeness' };
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
function facts({ report: { run, ranks, communicators }, title, part }) {
  const many = (/** @type {number} */ count, /** @type {string} */ what) =>
    html`<span><b>${number(count)}</b> ${what}${count === 1 ? '' : 's'}</span>`;
  document.title = `${title}: NCCL report`;
  fill(byId('facts'), html`<h1>${title}</h1>
    ${run.start_ns !== null && html`<span>${date(run.start_ns)}</span>`}
    ${many(run.hosts.length, 'host')}${many(ranks.length, 'rank')}${many(communicators.length, 'communicator')}
    ${run.nccl_versions.length > 0 && html`<span>NCCL <b>${run.nccl_versions.join(', ')}</b></span>`}
    <span><b>${seconds(run.duration_ns)}</b> s</span>${many(run.operations, 'operation')}${partOf(part)}`);
}

/** The part of the run that the page is about. @param {Model['part']} part */
function partOf({ from_ns: from, to_ns: to, ranks }) {
  const words = [from !== null && `from ${seconds(from)} s`, to !== null && `to ${seconds(to)} s`,
    ranks.length > 0 && `rank${ranks.length === 1 ? '' : 's'} ${ranks.join(', ')}`].filter(Boolean);
  return words.length > 0 && html`<span class="hot">only ${words.join(' ')}</span>`;
}

/** @param {Model} model */
function findings({ report }) {
  const exposed = exposedShare(report.overlap);
  const row = (/** @type {number | null} */ ns, /** @type {unknown} */ share, /** @type {unknown} */ text,
    /** @type {string} */ section, /** @type {string} */ label) => html`<tr><td class="n">${seconds(ns)}</td>
    <td class="n">${share}</td><td style="padding-left:20px">${text}</td>
    <td class="go n"><a href="#${section}">${label} ↓</a></td></tr>`;
  const causes = report.causes.slice(1, 5);
  const { rest } = report.verdict;
  const others = rest !== null && report.causes.length < 6 && html`<p class="because">${unit(rest)}</p>`;
  if (exposed === null && causes.length === 0) return others;
  return html`<table class="finds"><caption class="sr">Findings, by the time that all ranks lost</caption>
    <thead><tr><th class="n" scope="col" style="width:60px">lost, s</th>
    <th class="n" scope="col" style="width:88px">of time in operations, %</th>
    <th scope="col" style="padding-left:20px">also found${causes.length > 0 && html`; lost times overlap, since
      ranks wait longer for what is slow, too: they do not add up`}</th>
    <th scope="col" style="width:140px"><span class="sr">evidence</span></th></tr></thead><tbody>
    ${causes.map((cause) => {
      const { section, label } = placeOf(cause, report);
      const share = cause.share === null ? NONE : number(cause.share * 100, 1);
      return row(cause.lost_ns, share, cause.sentence, section, label);
    })}
    ${exposed !== null && row(null, NONE, html`<b>${percent(exposed)} of communication time is exposed:</b> no other
      kernel runs on the GPU meanwhile.`, 'overlap', 'overlap')}
    </tbody></table>${others}`;
}

/** Sections for the contents beside the page. @param {Model} model @returns {[string, string, unknown][]} */
export function sections({ report }) {
  const rank = report.causes[0]?.rank ?? null;
  const exposed = exposedShare(report.overlap);
  const hot = (/** @type {unknown} */ text) => html`<i class="hot">${text}</i>`;
  const count = (/** @type {unknown[] | undefined} */ list) => html`<i>${list?.length ?? 0}</i>`;
  const cause = (/** @type {Cause['kind']} */ wanted) => report.causes.find(({ kind }) => kind === wanted);
  const late = cause('late-rank')?.rank ?? null;
  const [pair, channel] = [cause('slow-pair') ?? cause('slow-connection'), cause('slow-channel')];
  const lost = report.completeness.callbacks_lost;
  const all = /** @type {[string, string, unknown][]} */ ([
    ['verdict', 'Verdict', rank !== null && hot(report.ranks[rank].name)],
    ['operations', 'Operations', count(report.operations)], ['time', 'Time by rank', count(report.ranks)],
    ['phases', 'Phases', count(report.phases)], ['steps', 'Steps', count(report.steps?.steps)],
    ['path', 'Critical path', count(report.critical_path?.parts)],
    ['skew', 'Who is late', late !== null && hot(duration(report.ranks[late].lost_ns ?? 0))],
    ['pairs', 'Pairs', pair ? hot(pairOf(pair.link, report.ranks)) : count(report.pairs)],
    ['channels', 'Channels', channel ? hot(channel.link?.channel) : count(report.channels)],
    ['wires', 'Links', cause('slow-nic') ? hot('slow') : count(report.nics)],
    ['overlap', 'Overlap', html`<i>${percent(exposed)}</i>`],
    ['making', 'Making communicators', count(report.communicator_calls)],
    ['anomalies', 'Anomalies', count(report.anomalies)],
    ['completeness', 'Completeness', lost > 0 && hot(`${number(lost)} lost`)], ['timeline', 'Timeline', ''],
    ['how', 'How to read', '']]);
  return all.filter(([id]) => document.getElementById(id));
}

/** The share of communication that no other kernel hides. @param {import('../model').Overlap[] | null} rows */
export function exposedShare(rows) {
  const all = (rows ?? []).reduce((sum, row) => sum + row.communication_ns, 0);
  return all === 0 ? null : (rows ?? []).reduce((sum, row) => sum + row.exposed_ns, 0) / all;
}
