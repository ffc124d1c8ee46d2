// Who arrives late, and when: a heat map of ranks over time.

import { add, drawn, fill, fillTable, hideTip, mix, section, showTip, sizeCanvas, token } from '#page/dom';
import { duration, moment, NONE, number, quantile } from '#page/format';
import { entries, html, prose, unit } from '#page/html';
import { plot, RIGHT } from '#page/plot';
import { plain } from '#page/program';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Report} Report */
/** @typedef {(begin: number, end: number, rank: number) => void} Go Shows a time in the timeline */

/** With more ranks the heat map is one picture, and the table begins with those that made others wait most. */
const STRIPS = 64;

/** Whether a rank arrives later than the median by more than the clocks' error. @param {Report} report */
const isSeen = ({ clocks: { uncertainty_ns: error }, lateness }) =>
  lateness.ranks.some((row) => row.some((late) => (late ?? 0) > (error ?? 0)));

/** Whether something can be said about who is late. @param {Report} report */
export const isComparable = (report) => report.run.comparable > 0 && (isSeen(report) || worstOf(report) !== null);

/** @param {Model} model @param {Go} go */
export function skew({ report }, go) {
  const bins = Math.max(0, ...report.lateness.ranks.map((row) => row.length));
  if (!isComparable(report)) return;
  const element = section('skew', 'Who arrives late, and when', 'nccl-otf2 stats --by ranks', lede(report),
    { open: worstOf(report) !== null, half: true });
  const heat = new Heat(report, bins, go);
  const [strips, seen] = [report.ranks.length <= STRIPS, isSeen(report)];
  if (!strips && seen) heatMap(element, heat);
  const rows = report.ranks.map((rank, index) => ({ ...rank, index }));
  if (!strips) rows.sort((a, b) => b.awaited_ns - a.awaited_ns);
  const table = add(element, 'table', 'tight');
  const drawStrips = () => heat.strips(table);
  fillTable(table, 'Lateness by rank over the run', [
    { title: 'rank', head: true, key: (row) => row.index, cell: (row) => row.name },
    { title: 'host', key: (row) => row.host, cell: (row) => row.host },
    ...(seen ? [{ title: strips ? heat.legend() : 'the whole run', style: 'width:52%;min-width:200px',
      cell: (/** @type {typeof rows[0]} */ row) => html`<canvas class="strip" data-rank="${row.index}" role="img"
        aria-label="Lateness of ${row.name}"></canvas>` }] : []),
    { title: html`longer<br>than peers`, number: true, key: (row) => row.longer_ns ?? 0,
      cell: (row) => duration(row.longer_ns) },
    { title: html`others<br>lose`, number: true, key: (row) => row.lost_ns ?? 0, cell: (row) => duration(row.lost_ns) },
    ...(report.ranks.some((rank) => rank.trend_ns_per_s !== null) ? [trendOf] : []),
    { title: html`last,<br>%`, number: true, key: (row) => row.last / Math.max(1, row.instances),
      cell: (row) => (row.instances === 0 ? NONE : number((row.last / row.instances) * 100)) },
    { title: 'awaited', number: true, key: (row) => row.awaited_ns, cell: (row) => duration(row.awaited_ns) },
  ], rows, { limit: strips ? STRIPS : 24, mark: (row) => row.index === worstOf(report), done: drawStrips });
  if (!seen) return;
  drawn(drawStrips);
  const heatAt = () => strips ? placeOf(table.querySelector('.strip'), element) : heatArea(element);
  trend(table.parentElement ?? element, report, bins, heatAt);
}

/** The late rank to look at. @param {Report} report */
const worstOf = ({ causes }) => causes.find(({ kind }) => kind === 'late-rank')?.rank ?? null;

/** @type {import('#page/dom').Column<import('../model').Rank>} */
const trendOf = {
  title: html`trend,<br>per s`, number: true, key: (row) => row.trend_ns_per_s ?? 0,
  cell: (row) => (row.trend_ns_per_s === null ? unit('none') : duration(row.trend_ns_per_s)),
};

/** @param {Report} report */
function lede(report) {
  const cause = report.causes.find(({ kind }) => kind === 'late-rank');
  return html`Arrival at collectives against the median rank. ${cause ? html`<b>${prose(cause.sentence)}.</b>` :
    html`<b>${report.verdict.finding === 'healthy' ? 'No rank is late as a rule' :
      'No rank can be named late'}.</b>`} ${report.clocks.sentence}${!isSeen(report) &&
    ' Arrivals differ by less than that: when a rank was late cannot be drawn.'}`;
}

class Heat {
  /** @param {Report} report @param {number} bins @param {Go} go */
  constructor(report, bins, go) {
    this.report = report;
    this.bins = bins;
    this.go = go;
    this.floor = report.clocks.uncertainty_ns ?? 0;
    const late = Float64Array.from(report.lateness.ranks.flatMap((row) => row.filter((ns) => (ns ?? 0) > this.floor)),
      Number).sort();
    /** What the darkest colour stands for: so high that one rank among all is seen. */
    this.scale = late.length === 0 ? Math.max(1, this.floor) : quantile(late, 1 - 1 / (4 * report.ranks.length));
  }

  legend() {
    return html`the whole run &nbsp;<span class="ramp"></span> 0 … ${duration(this.scale)} late, mean over
      nearby collectives${
      this.floor > 0 && html`; below the clocks’ ± ${duration(this.floor)}
      empty`}`;
  }

  ramp() {
    return Array.from({ length: 65 }, (_, at) => mix(token('--raise'), token('--accent'), at / 64));
  }

  /** @param {number} share Of the width */
  bin(share) {
    return Math.max(0, Math.min(this.bins - 1, Math.floor(share * this.bins)));
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} rank
   * @param {string[]} ramp
   * @param {{ x: number, y: number, width: number, height: number }} box
   */
  draw(context, rank, ramp, { x: left, y, width, height }) {
    const row = this.report.lateness.ranks[rank] ?? [];
    // A column for each bin, or for each pixel where there are more bins.
    const columns = Math.min(width, this.bins);
    for (let column = 0; column < columns; column++) {
      const from = Math.floor((column / columns) * this.bins);
      const to = Math.max(from + 1, Math.floor(((column + 1) / columns) * this.bins));
      let most = 0;
      for (let bin = from; bin < to; bin++) most = Math.max(most, row[bin] ?? 0);
      if (most <= this.floor) continue;
      context.fillStyle = ramp[Math.round(Math.min(1, most / this.scale) ** 0.7 * (ramp.length - 1))];
      const [x, next] = [column, column + 1].map((at) => Math.floor((at * width) / columns));
      context.fillRect(left + x, y, next - x, height);
    }
  }

  /** @param {HTMLElement} table */
  strips(table) {
    const canvases = /** @type {HTMLCanvasElement[]} */ ([...table.querySelectorAll('.strip')]);
    const ramp = this.ramp();
    const width = Math.max(120, Math.floor((canvases[0]?.parentElement?.clientWidth ?? 16) - 16));
    for (const canvas of canvases) {
      const rank = Number(canvas.dataset.rank);
      const context = sizeCanvas(canvas, width, 15);
      context.fillStyle = token('--raise');
      context.fillRect(0, 0, width, 15);
      this.draw(context, rank, ramp, { x: 0, y: 0, width, height: 15 });
      this.listen(canvas, (event) => [rank, this.bin(event.offsetX / width)]);
    }
  }

  /** @param {HTMLCanvasElement} canvas @param {(event: MouseEvent) => [number, number]} at Rank and bin */
  listen(canvas, at) {
    canvas.onmousemove = (event) => this.tip(...at(event), event);
    canvas.onmouseleave = hideTip;
    canvas.onclick = (event) => {
      const [rank, bin] = at(event);
      const { from_ns: from, bin_ns: length } = this.report.lateness;
      this.go(from + bin * length, from + (bin + 1) * length, rank);
    };
  }

  /** @param {number} rank @param {number} bin @param {MouseEvent} event */
  tip(rank, bin, event) {
    const { from_ns: from, bin_ns: length, ranks } = this.report.lateness;
    const late = ranks[rank]?.[bin] ?? null;
    showTip(html`<h4>${this.report.ranks[rank].name}, ${duration(from + bin * length)}</h4>${entries([
      ['mean lateness against the median rank', late === null ? 'no arrival' : duration(late)],
      ['clocks', this.floor > 0 ? `± ${duration(this.floor)}` : 'error unknown'],
    ])}<p>Click: this place in the timeline</p>`, event);
  }
}

/** Room for the names of hosts. */
const HEAT_GUTTER = 88;

/** Where the heat map of many ranks has its bins. @param {HTMLElement} element */
const heatArea = (element) =>
  ({ left: HEAT_GUTTER, width: Math.floor(element.clientWidth) - HEAT_GUTTER - RIGHT });

/** Where a strip is in the box of its table. @param {HTMLElement | null} strip @param {HTMLElement} element */
function placeOf(strip, element) {
  const box = (strip?.closest('.wide') ?? element);
  if (!strip) return heatArea(element);
  const left = strip.getBoundingClientRect().left - box.getBoundingClientRect().left + box.scrollLeft;
  return { left, width: strip.clientWidth };
}

/** @param {HTMLElement} element @param {Heat} heat */
function heatMap(element, heat) {
  const { ranks } = heat.report;
  fill(add(element, 'p', 'small u'), html`All ranks, by host, the first at the top; ${heat.legend()}`);
  const canvas = /** @type {HTMLCanvasElement} */ (add(element, 'canvas'));
  canvas.id = 'heat';
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', 'Lateness of all ranks over time');
  const size = Math.max(0.5, Math.min(6, Math.round(1280 / ranks.length) / 2));
  drawn(() => {
    const { width } = heatArea(element);
    const context = sizeCanvas(canvas, HEAT_GUTTER + width, Math.ceil(size * ranks.length));
    context.fillStyle = token('--raise');
    context.fillRect(HEAT_GUTTER, 0, width, size * ranks.length);
    const ramp = heat.ramp();
    ranks.forEach((_, rank) => heat.draw(context, rank, ramp,
      { x: HEAT_GUTTER, y: rank * size, width, height: Math.max(1, size) }));
    hostLabels(context, ranks, size);
  });
  heat.listen(canvas, (event) => [Math.min(ranks.length - 1, Math.floor(event.offsetY / size)),
    heat.bin((event.offsetX - HEAT_GUTTER) / (canvas.clientWidth - HEAT_GUTTER))]);
}

/** @param {CanvasRenderingContext2D} context @param {{ host: string }[]} ranks @param {number} size */
function hostLabels(context, ranks, size) {
  context.font = `10.5px ${token('--sans')}`;
  context.fillStyle = token('--ink-2');
  context.textBaseline = 'top';
  let next = 0;
  ranks.forEach(({ host }, rank) => {
    if ((rank > 0 && ranks[rank - 1].host === host) || rank * size < next) return;
    context.fillText(host, 0, rank * size, 82);
    next = rank * size + 13;
  });
}

/**
 * The lateness of the rank that matters against the others.
 * @param {HTMLElement} element
 * @param {Report} report
 * @param {number} bins
 * @param {() => { left: number, width: number }} area Of the heat map, whose axis of time this is, too
 */
function trend(element, report, bins, area) {
  const rank = worstOf(report);
  if (rank === null || bins < 8) return;
  const { from_ns: from, bin_ns: length, ranks } = report.lateness;
  const used = Array.from({ length: bins }, (_, bin) => bin).filter((bin) => ranks.some((row) => row[bin] !== null));
  const x = used.map((bin) => from + (bin + 0.5) * length);
  const others = used.map((bin) => Float64Array.from(ranks.flatMap((row, other) => {
    const late = row[bin] ?? null;
    return other === rank || late === null ? [] : [late];
  })).sort());
  const edge = (/** @type {number} */ share) =>
    others.map((sorted) => (sorted.length === 0 ? null : quantile(sorted, share)));
  const { change, name } = report.ranks[rank];
  const figure = add(element, 'figure');
  fill(figure, html`<figcaption><span>how late, mean over nearby collectives: <b
    class="hot">${name}</b>; grey: 5 % to 95 % of the other
    ranks</span>${change && html`<span class="u">change at ${duration(change.at_ns)}:
    ${duration(change.before)} before, ${duration(change.after)} after</span>`}</figcaption>`);
  plot(add(figure, 'div'), {
    height: 120, area, xRange: [from, from + bins * length],
    xText: (value) => moment(value, bins * length, (bins * length) / 100), yText: plain,
    data: [x, edge(0.05), edge(0.95), used.map((bin) => {
      const late = ranks[rank]?.[bin] ?? null;
      return late;
    })],
    series: [{ colour: '--hatch', width: 0 }, { colour: '--hatch', width: 0 }, { colour: '--accent', width: 1.6 }],
    band: [1, 2], mark: change ? change.at_ns : undefined,
  });
}
