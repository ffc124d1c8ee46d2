// The critical path: what determines the time from the first operation to the last.

import { add, colourName, fillTable, section } from '#page/dom';
import { duration, NONE, number, pathText, percent, shortened } from '#page/format';
import { html, prose } from '#page/html';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Report} Report */
/** @typedef {import('../model').PathPart} PathPart */

/** @param {Model} model */
export function path({ report }) {
  const found = report.critical_path;
  if (!found) return;
  const element = section('path', 'Critical path', 'nccl-otf2 stats --by path', html`From the end of the last operation
    back, through what each operation waited for. <b>${prose(found.sentence)}</b> If a part took no time at all, the run
    would be shorter by its length at most: by less where another path is nearly as long.`);
  const most = Math.max(1, ...found.parts.map((part) => part.ns));
  fillTable(add(element, 'table', 'tight'), 'Parts of the critical path', [
    { title: 'part', head: true, key: (part) => part.kind, cell: (part) => part.kind },
    { title: 'rank', key: (part) => part.rank ?? -1,
      cell: (part) => (part.rank === null ? NONE : report.ranks[part.rank]?.name) },
    { title: 'in', className: 'wrap', cell: (part) => placeOf(part, report) },
    { title: 'times', number: true, key: (part) => part.times, cell: (part) => number(part.times) },
    { title: 'time on it', number: true, key: (part) => part.ns, cell: (part) => duration(part.ns) },
    { title: 'of the path', number: true, key: (part) => part.share, cell: (part) => percent(part.share, 1) },
    { title: '', style: 'width:22%', cell: (part) => html`<span class="bar"><i style="width:${
      (part.ns / most) * 100}%;background:var(${part.function ? colourName(part.function) : '--seq'})"></i></span>` },
  ], found.parts, { sort: [4, -1], limit: 16 });
}

/** @param {PathPart} part @param {Report} report */
function placeOf({ function: name, link, phase, communicator }, { ranks, communicators }) {
  const end = (/** @type {number | null} */ at) => (at === null ? null : ranks[at]?.number ?? ranks[at]?.name);
  const pair = link && link.from !== null && `${end(link.from)} → ${end(link.to) ?? link.peer ?? '?'}`;
  const channel = link && link.channel !== null && `channel ${link.channel}`;
  const on = communicator !== null && communicators.length > 1 && communicators[communicator]?.name;
  const mostly = phase && `${percent(phase.share)} in ${shortened(pathText(phase.path))}`;
  return [name, pair, channel, on, mostly].filter(Boolean).join(', ') || NONE;
}
