// Traffic between ranks: the matrix, and the time of a transfer by its bytes for a pair or a channel.

import {
  add, byId, drawn, fill, fillTable, hideTip, mix, section, segments, showTip, sizeCanvas, token,
} from '#page/dom';
import { bytes, duration, gigabytes, median, NONE, number } from '#page/format';
import { entries, html, prose } from '#page/html';
import { plot } from '#page/plot';
import { plain } from '#page/program';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Report} Report */
/** @typedef {import('../model').Link} Link */
/** @typedef {import('../model').Fit} Fit */

/**
 * What is known of a sender and a receiver.
 * @typedef {{ from: number, to: number, bytes: number, link: Link | null }} Cell
 */

const SIDE = 320;
/** A cell of few ranks. */
const LARGEST = 40;
const GUTTER = 40;

/** A fit that says something: of more than one size. @param {Link | null} link @returns {Fit | null} */
const fitOf = (link) => (link?.all?.rate ? link.all : null);

/** @param {Report} report @returns {Map<string, Cell>} */
function cellsOf(report) {
  const cells = new Map();
  const cell = (/** @type {number | null} */ from, /** @type {number | null} */ to) => {
    if (from === null || to === null) return null;
    const key = `${from} ${to}`;
    if (!cells.has(key)) cells.set(key, { from, to, bytes: 0, link: null });
    return cells.get(key);
  };
  for (const link of report.pairs) {
    const known = cell(link.from, link.to);
    if (!known) continue;
    known.bytes += link.bytes;
    if (!known.link || known.link.steps < link.steps) known.link = link;
  }
  for (const message of report.messages) {
    const known = cell(message.from, message.to);
    if (known && !known.link) known.bytes += message.bytes;
  }
  return cells;
}

/** How many senders are seen with their receivers. @param {Report} report */
export const countPairs = (report) => cellsOf(report).size;

/** @param {Model} model */
export function pairs({ report }) {
  const cells = cellsOf(report);
  if (cells.size === 0) return;
  const slow = report.causes.find(({ kind }) => ['slow-pair', 'slow-connection', 'slow-nic'].includes(kind));
  const element = section('pairs', 'Pairs of ranks', 'nccl-otf2 stats --by pairs', html`Bytes of all
    pairs; times where the proxy moved them over the network${!report.run.has_steps && html`, which need
    <code>NCCL_OTF2_EVENTS=standard,ProxyStep</code>`}. <b>${slow ? prose(slow.sentence) :
    report.run.has_steps ? 'No pair costs 2 % of communication time.' : 'Links were not measured.'}</b>`,
  { open: slow !== undefined });
  const linked = [...cells.values()].filter(({ link }) => link);
  linked.sort((a, b) => (b.link?.slowdown ?? 0) - (a.link?.slowdown ?? 0));
  const first = slow?.link && cells.get(`${slow.link.from} ${slow.link.to}`);
  const view = new Pairs(report, cells, linked, first ?? linked[0] ?? [...cells.values()][0]);
  fill(add(element, 'div', 'pairs'), html`<figure><div class="tools"><h3>Sender × receiver</h3>
    <span class="seg" id="matrix-mode" role="group" aria-label="What the matrix shows"></span></div>
    <canvas id="matrix" tabindex="0" role="img"></canvas><figcaption class="u" id="matrix-say"></figcaption>
    <p class="small u" id="matrix-ramp"></p></figure>
    ${linked.length > 0 && html`<figure id="pair-plot"></figure><div class="scrolls"><table class="tight"
    id="pair-table"></table></div>`}`);
  view.show();
  waits(element, report);
}

/** How long the ends of messages waited for each other. @param {HTMLElement} element @param {Report} report */
function waits(element, { communicators, messages, ranks }) {
  const waited = (/** @type {Report['messages'][0]} */ it) => it.late_sender_ns + it.late_receiver_ns;
  const rows = messages.filter((it) => waited(it) > 0).sort((a, b) => waited(b) - waited(a));
  if (rows.length === 0) return;
  const name = (/** @type {number | null} */ rank) => (rank === null ? NONE : ranks[rank].name);
  fill(add(element, 'h3'), html`Waiting in sends and receives`);
  fillTable(add(element, 'table', 'tight'), 'Waiting in sends and receives, by sender and receiver', [
    { title: 'from', head: true, key: (row) => row.from ?? -1, cell: (row) => name(row.from) },
    { title: 'to', key: (row) => row.to ?? -1, cell: (row) => name(row.to) },
    { title: 'on', cell: (row) => communicators[row.communicator]?.name ?? NONE, className: 'name' },
    { title: 'count', number: true, key: (row) => row.count, cell: (row) => number(row.count) },
    { title: 'bytes', number: true, key: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    { title: html`waited for<br>the sender`, number: true, key: (row) => row.late_sender_ns,
      cell: (row) => duration(row.late_sender_ns) },
    { title: html`waited for<br>the receiver`, number: true, key: (row) => row.late_receiver_ns,
      cell: (row) => duration(row.late_receiver_ns) },
  ], rows, { limit: 24 });
}

class Pairs {
  /** @param {Report} report @param {Map<string, Cell>} cells @param {Cell[]} linked @param {Cell} chosen */
  constructor(report, cells, linked, chosen) {
    this.report = report;
    this.cells = cells;
    this.linked = linked;
    this.chosen = { from: chosen.from, to: chosen.to };
    this.mode = 'bytes';
  }

  /** @param {number} rank */
  name(rank) {
    const { name, number: known } = this.report.ranks[rank];
    return known === null ? name : String(known);
  }

  show() {
    const canvas = /** @type {HTMLCanvasElement} */ (byId('matrix'));
    const modes = this.linked.some(({ link }) => fitOf(link)) ? ['bytes', 'latency', 'rate'] : [];
    segments(byId('matrix-mode'), modes.map((mode) => [mode, mode]), this.mode, (mode) => {
      this.mode = mode;
      this.matrix(canvas);
    });
    this.listen(canvas);
    drawn(() => this.matrix(canvas));
    this.table();
    this.scatter();
  }

  /** @param {number} from @param {number} to */
  choose(from, to) {
    this.chosen = { from, to };
    this.matrix(/** @type {HTMLCanvasElement} */ (byId('matrix')));
    this.scatter();
    this.mark();
  }

  /** @param {Cell | undefined} cell @returns {number | null} */
  value(cell) {
    if (!cell) return null;
    if (this.mode === 'bytes') return cell.bytes || null;
    const fit = fitOf(cell.link);
    return fit && (this.mode === 'latency' ? fit.latency_ns : fit.rate);
  }

  /** @param {Cell | undefined} cell */
  say(cell) {
    const value = this.value(cell);
    if (value === null) return cell ? 'not timed over the network' : 'no traffic that NCCL reports';
    if (this.mode === 'bytes') return bytes(value);
    return this.mode === 'latency' ? duration(value) : `${gigabytes(value)} GB/s`;
  }

  /** @param {HTMLCanvasElement} canvas */
  matrix(canvas) {
    const count = this.report.ranks.length;
    const size = Math.min(LARGEST, SIDE / count);
    const side = GUTTER + size * count + 2;
    const context = sizeCanvas(canvas, side, side);
    context.fillStyle = token('--raise');
    context.fillRect(GUTTER, GUTTER, size * count, size * count);
    const values = [...this.cells.values()].flatMap((cell) => this.value(cell) ?? []);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const gap = size > 6 ? 1 : 0;
    const ramp = [token('--raise'), token(this.mode === 'bytes' ? '--seq' : '--accent')];
    for (const cell of this.cells.values()) {
      const value = this.value(cell);
      if (value === null) continue;
      const share = this.mode === 'bytes' ? Math.sqrt(value / most) : (value - least) / (most - least || 1);
      context.fillStyle = mix(ramp[0], ramp[1], 0.12 + 0.88 * (this.mode === 'rate' ? 1 - share : share));
      context.fillRect(GUTTER + cell.to * size, GUTTER + cell.from * size, Math.max(1, size - gap),
        Math.max(1, size - gap));
    }
    this.legend(ramp, [least, most]);
    this.labels(context, size);
    const { from, to } = this.chosen;
    context.strokeStyle = token('--ink');
    context.lineWidth = 2;
    context.strokeRect(GUTTER + to * size - 1, GUTTER + from * size - 1, Math.max(3, size) + 1, Math.max(3, size) + 1);
    const text = `${this.name(from)} → ${this.name(to)}: ${this.say(this.cells.get(`${from} ${to}`))}`;
    byId('matrix-say').textContent = text;
    canvas.setAttribute('aria-label', `Matrix of ranks, sender by receiver, arrow keys move; now ${text}`);
  }

  /** What the colours stand for, the lightest first. @param {string[]} ramp @param {[number, number]} values */
  legend([from, to], [least, most]) {
    if (!(least <= most)) return fill(byId('matrix-ramp'), html`Nothing is timed here.`);
    const text = (/** @type {number} */ value) => this.mode === 'latency' ? duration(value) :
      this.mode === 'bytes' ? bytes(value) : `${gigabytes(value)} GB/s`;
    const ends = this.mode === 'bytes' ? [0, most] : this.mode === 'latency' ? [least, most] : [most, least];
    fill(byId('matrix-ramp'), html`${text(ends[0])} <span class="ramp" style="background:linear-gradient(90deg,${
      mix(from, to, 0.12)},${to})"></span> ${text(ends[1])}`);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} size */
  labels(context, size) {
    const { ranks } = this.report;
    context.font = `10.5px ${token('--sans')}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    const every = Math.ceil((ranks.length > 100 ? 30 : 18) / size);
    const hosts = new Set(ranks.map(({ host }) => host)).size;
    ranks.forEach((rank, at) => {
      const middle = GUTTER + (at + 0.5) * size;
      if (at > 0 && ranks[at - 1].host !== rank.host && hosts <= 16) {
        context.fillStyle = token('--line-2');
        context.fillRect(middle - size / 2 - 1, GUTTER - 18, 1, size * ranks.length + 18);
        context.fillRect(GUTTER - 18, middle - size / 2 - 1, size * ranks.length + 18, 1);
      }
      if (at % every !== 0 || this.name(at).length > 4) return;
      context.fillStyle = token(at === this.chosen.to ? '--accent' : '--ink-2');
      context.fillText(this.name(at), middle, GUTTER - 10);
      context.fillStyle = token(at === this.chosen.from ? '--accent' : '--ink-2');
      context.fillText(this.name(at), GUTTER - 12, middle);
    });
  }

  /** @param {HTMLCanvasElement} canvas */
  listen(canvas) {
    const count = this.report.ranks.length;
    const at = (/** @type {MouseEvent} */ event) => {
      const size = Math.min(LARGEST, SIDE / count);
      const [from, to] = [event.offsetY, event.offsetX].map((place) => Math.floor((place - GUTTER) / size));
      return from >= 0 && to >= 0 && from < count && to < count ? { from, to } : null;
    };
    canvas.onclick = (event) => {
      const place = at(event);
      if (place) this.choose(place.from, place.to);
    };
    canvas.onmousemove = (event) => {
      const place = at(event);
      if (place) this.tip(place.from, place.to, event);
      else hideTip();
    };
    canvas.onmouseleave = hideTip;
    canvas.onkeydown = (event) => {
      const moves = /** @type {Record<string, [number, number]>} */ ({
        ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] });
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      this.choose((this.chosen.from + move[0] + count) % count, (this.chosen.to + move[1] + count) % count);
    };
  }

  /** @param {number} from @param {number} to @param {MouseEvent} event */
  tip(from, to, event) {
    const cell = this.cells.get(`${from} ${to}`);
    const fit = fitOf(cell?.link ?? null);
    showTip(html`<h4>${this.name(from)} → ${this.name(to)}</h4>${entries([
      ['bytes', cell ? bytes(cell.bytes) : 'none that NCCL reports'],
      ['from', this.report.ranks[from].host], ['to', this.report.ranks[to].host],
      ...linkFacts(cell?.link ?? null, fit),
    ])}`, event);
  }

  table() {
    if (this.linked.length === 0) return;
    const table = byId('pair-table');
    const latency = (/** @type {Cell} */ cell) => fitOf(cell.link)?.latency_ns ?? null;
    fillTable(table, 'Pairs over the network', [
      { title: 'pair', head: true, cell: (cell) => html`<a href="#pairs" data-from="${cell.from}"
        data-to="${cell.to}">${this.name(cell.from)} → ${this.name(cell.to)}</a>` },
      { title: 'latency', number: true, key: (cell) => latency(cell) ?? -1,
        cell: (cell) => duration(latency(cell)) },
      { title: html`rate,<br>GB/s`, number: true, key: (cell) => fitOf(cell.link)?.rate ?? cell.link?.rate ?? -1,
        cell: (cell) => gigabytes(fitOf(cell.link)?.rate ?? cell.link?.rate ?? null) },
      { title: 'R²', number: true, key: (cell) => fitOf(cell.link)?.r_squared ?? -1,
        cell: (cell) => number(fitOf(cell.link)?.r_squared, 3) },
      { title: html`slowdown,<br>×`, number: true, key: (cell) => cell.link?.slowdown ?? -1,
        cell: (cell) => number(cell.link?.slowdown, 2) },
      { title: 'lost', number: true, key: (cell) => cell.link?.lost_ns ?? -1,
        cell: (cell) => duration(cell.link?.lost_ns ?? null) },
    ], this.linked, { limit: 40, sort: [4, -1], done: () => this.mark() });
    table.addEventListener('click', (event) => {
      const { from, to } = /** @type {HTMLElement} */ (event.target).dataset;
      if (from === undefined || to === undefined) return;
      event.preventDefault();
      this.choose(Number(from), Number(to));
    });
  }

  mark() {
    if (this.linked.length === 0) return;
    byId('pair-table').querySelectorAll('a[data-from]').forEach((link) => {
      const { from, to } = /** @type {HTMLElement} */ (link).dataset;
      const here = Number(from) === this.chosen.from && Number(to) === this.chosen.to;
      link.closest('tr')?.classList.toggle('mark', here);
    });
  }

  scatter() {
    if (this.linked.length === 0) return;
    const { from, to } = this.chosen;
    const link = this.cells.get(`${from} ${to}`)?.link ?? null;
    const others = this.linked.flatMap((cell) => (cell.link && cell.link !== link ? [cell.link] : []));
    scatter(byId('pair-plot'), `${this.name(from)} → ${this.name(to)}`, link, others);
  }
}

/** @param {Link | null} link @param {Fit | null} fit @returns {[string, unknown][]} */
function linkFacts(link, fit) {
  if (!link) return [];
  return [
    ['transfers', number(link.steps)],
    ['bytes ÷ busy time', `${gigabytes(link.rate)} GB/s`],
    ...(fit?.latency_ns ? /** @type {[string, unknown][]} */ ([['latency', duration(fit.latency_ns)],
      ['rate', `${gigabytes(fit.rate)} GB/s`]]) : []),
    ...(link.slowdown === null ? [] : /** @type {[string, unknown][]} */ ([
      ['slowdown', `× ${number(link.slowdown, 2)}`]])),
    ...Object.entries(link.waits).filter(([, ns]) => ns > 0).map(([name, ns]) =>
      /** @type {[string, unknown]} */ ([name.replace(/_ns$/, '').replaceAll('_', ' '), duration(ns)])),
  ];
}

/**
 * Time of a transfer by its bytes, with the regression.
 * @param {HTMLElement} element
 * @param {string} title
 * @param {Link | null} link
 * @param {Link[]} others
 */
export function scatter(element, title, link, others) {
  if (!link || link.points.length === 0) {
    fill(element, html`<h3>${title}</h3><p class="small u">${link ? 'Steps of the network were not recorded here: ' :
      'No transfer over the network between these two: '}there is nothing to fit.</p>`);
    return;
  }
  const { all, least } = link;
  const fits = others.flatMap((other) => (other.all?.rate ? [other.all] : []));
  const middle = fits.length < 3 ? null : { latency_ns: median(fits.map((fit) => Number(fit.latency_ns))),
    rate: 1 / median(fits.map((fit) => 1 / Number(fit.rate))) };
  const line = (/** @type {Fit | null} */ fit) => (fit && fit.latency_ns !== null ?
    html`${duration(fit.latency_ns)}${fit.rate && html` + bytes ÷ ${gigabytes(fit.rate)} GB/s`}` : 'no line fits');
  fill(element, html`<h3>${title}: time of a transfer by its bytes</h3>
    <p class="small u"><span style="color:var(--ink)">${line(all)}</span>, R² ${number(all?.r_squared, 3)}, ${
      number(all?.points ?? link.points.length)} transfers; least times: ${line(least)}</p>
    <div class="plot"></div><p class="small u keys"><span class="key"><span class="hot">●</span>transfers</span><span
      class="key">○ least time of each size</span>${all && all.latency_ns !== null &&
      html`<span class="key"><u></u>regression, weights 1/t²</span>`}${middle &&
      html`<span class="key">┄ median of the others</span>`}</p>`);
  const smallest = new Map();
  for (const [, size, time] of link.points) smallest.set(size, Math.min(time, smallest.get(size) ?? Infinity));
  const sizes = [...new Set(link.points.map(([, size]) => Math.max(1, size)))].sort((a, b) => a - b);
  plotScatter(/** @type {HTMLElement} */ (element.querySelector('.plot')), link, sizes, smallest, [all, middle]);
}

/**
 * @param {HTMLElement} element @param {Link} link @param {number[]} sizes @param {Map<number, number>} smallest
 * @param {({ latency_ns: number | null, rate: number | null } | null)[]} fits
 */
function plotScatter(element, link, sizes, smallest, fits) {
  const points = link.points.map(([, size, time]) => ({ x: Math.max(1, size), y: Math.max(1, time) / 1e3, kind: 0 }));
  for (const size of sizes) points.push({ x: size, y: (smallest.get(size) ?? 1) / 1e3, kind: 1 });
  const [low, high] = [sizes[0] * 0.8, sizes[sizes.length - 1] * 1.25];
  for (let at = 0; at <= 48; at++) points.push({ x: low * (high / low) ** (at / 48), y: 0, kind: 2 });
  points.sort((a, b) => a.x - b.x);
  const only = (/** @type {number} */ kind) => points.map((point) => (point.kind === kind ? point.y : null));
  const lines = fits.map((fit) => points.map((point) => {
    const time = fit && fit.latency_ns !== null && point.kind === 2 ?
      fit.latency_ns + (fit.rate ? (point.x / fit.rate) * 1e9 : 0) : 0;
    return time > 0 ? time / 1e3 : null;
  }));
  plot(element, {
    height: 300, logarithmic: true, data: [points.map((point) => point.x), only(0), only(1), ...lines],
    xText: (value) => bytes(value), yText: (value) => plain(value * 1e3),
    series: [{ colour: '--accent', width: 0, points: 4 }, { colour: '--ink', width: 0, points: 6, hollow: true },
      { colour: '--ink' }, { colour: '--ink-2', dash: [5, 3] }],
  });
}
