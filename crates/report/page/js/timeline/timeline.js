// The timeline: view, mouse, keys, search, links.

import { listen } from '#page/timeline/controls';
import { add, byId, drawn, fill, hideTip, section, sizeCanvas, unfold } from '#page/dom';
import { draw, drawWhole } from '#page/timeline/draw';
import { duration, number } from '#page/format';
import { suspects } from '#page/hang';
import { html, unit } from '#page/html';
import { legend, Palette } from '#page/timeline/palette';
import { measured } from '#page/timeline/measure';
import { momentOf, sentenceOf } from '#page/timeline/moment';
import { panel } from '#page/timeline/panel';
import { anomalyIn, beginOf, endOf, fullName, linkTo, locationOf, related } from '#page/timeline/related';
import { layout } from '#page/timeline/rows';
import { matcher } from '#page/timeline/search';
import { MOST_LOADED } from '#page/timeline/store';
import { AXIS } from '#page/timeline/view';

/** @typedef {import('../../model').Model} Model */
/** @typedef {import('../../model').Anomaly} Anomaly */
/** @typedef {import('#page/timeline/store').Store} Store */
/** @typedef {import('#page/timeline/store').Item} Item */

/** With more ranks the hosts are closed at first. */
const OPEN_RANKS = 32;
const MOST_HITS = 100_000;

const HELP = html`A row is a rank: a click on its name opens it. A click on an operation shows it on all ranks; then the
  wheel zooms. Shift and drag, or drag on the axis, measures a time. <kbd>w</kbd> <kbd>s</kbd> zoom <kbd>a</kbd>
  <kbd>d</kbd> pan <kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> walk <kbd>/</kbd> find`;
const BUTTONS = [['w', '+', 'Zoom in'], ['s', '−', 'Zoom out'], ['a', '←', 'Pan left'], ['d', '→', 'Pan right'],
  ['0', 'Whole run', 'Whole run'], ['f', 'Fit selection', 'Fit selection'], ['m', 'Measure view', 'Measure this view'],
  ['e', 'Open / close all', 'Open or close all']];
/** The panel says what is in view once the view has been still for so long, in ms. */
const STILL = 120;

export class TimelineView {
  /** @param {Model} model @param {Store} store */
  constructor(model, store) {
    this.store = store;
    const { timeline, report } = model;
    const named = suspects(model);
    const rows = timeline.rows.flatMap(({ rank }, at) => (rank !== null && named.includes(rank) ? [at] : []));
    const row = rows.length === 1 ? rows[0] : -1;
    this.marks = report.anomalies.map((anomaly) => anomaly.start_ns);
    const link = report.causes[0]?.link ?? null;
    const ends = timeline.rows.flatMap(({ rank }, at) =>
      (rank !== null && (rank === link?.from || rank === link?.to) ? [at] : []));
    // Without operations a closed rank shows nothing.
    const first = report.run.operations > 0 ? 1 : OPEN_RANKS;
    this.open = new Set(ends.length > 0 ? ends : row >= 0 ? [row] :
      timeline.rows.length <= first ? timeline.rows.keys() : []);
    /** Ranks with all their rows. */
    this.all = new Set();
    this.model = model;
    const shown = [...rows, ...ends].map((one) => timeline.rows[one]?.host);
    this.closed = new Set(timeline.rows.length <= OPEN_RANKS ? [] :
      timeline.hosts.map((_, host) => host).filter((host) => !shown.includes(host)));
    /** @type {Item[]} */
    this.hits = [];
    this.hit = -1;
    this.first = timeline.begin_ns;
    /** The end. */
    this.whole = Math.max(this.first + 1, timeline.duration_ns);
    /** @type {import('#page/timeline/view').View} */
    this.view = { ...this.store.busy(), width: 0, height: 0, scroll: 0, rows: [], selected: null,
      related: null, matches: null, worst: row >= 0 ? row : null, span: null };
    this.frame = 0;
    const element = this.build();
    this.canvas = /** @type {HTMLCanvasElement} */ (byId('events'));
    this.select(null);
    listen(this, element);
    drawn(() => {
      this.palette = new Palette(this.store.timeline.names);
      this.arrange();
    });
    if (row >= 0) this.reveal(row);
  }

  build() {
    const element = section('timeline', 'Timeline', 'nccl-otf2 report --full', html`<span id="moment"></span>`,
      { open: 'always' });
    fill(add(element, 'div', 'tools'), html`<input id="find" type="search" aria-label="Search events"
      placeholder="allreduce world rank:11 wait>5ms dur>200us"><span id="found" class="u small" aria-live="polite">
      </span>
      ${BUTTONS.map(([key, label, name]) => html`<button type="button" data-key="${key}" aria-label="${name}">${label}
      </button>`)}`);
    fill(add(element, 'div', 'keys'), html`${this.model.report.run.operations > 0 && html`<span class="key"><i
      class="hatched"></i>waiting for the last rank</span>`}
      ${this.store.unfinished.size > 0 && html`<span class="key"><i class="unfinished"></i>not ended when the recording
      did (as waiting where shares of time are drawn)</span>`}${
      legend(this.store.timeline).map(({ colour, label }) => html`<span class="key"><i class="dot"
      style="background:${colour}"></i>${label}</span>`)}${this.marks.length > 0 && html`<span class="key"><span
      class="hot">▼</span>anomalies</span>`}${!this.store.isComplete(this.first, this.whole) &&
    html`<span class="key">▬ times of which the page has every event</span>`}<span
      class="key" id="orphans" hidden><i class="moved"></i>of an operation that is not here</span><span id="absent"
      class="u"></span>`);
    fill(add(element, 'div', 'timeline'), html`<div><canvas id="whole" role="img"
      aria-label="The whole run; the window is the timeline below"></canvas><div id="rows"><canvas id="events"
      tabindex="0" role="application" aria-label="Timeline. Arrow keys walk through events and ranks, w and s zoom,
      a and d pan, Enter opens a rank."></canvas><div id="below"></div></div></div><aside id="selected"
      aria-label="Selected event"></aside>`);
    fill(add(element, 'p', 'small u'), HELP);
    fill(add(element, 'p', 'sr'), html`<span id="live" aria-live="polite"></span>`);
    return element;
  }

  /** Lays the rows out anew. */
  arrange() {
    const { rows, height } = layout(this.store.timeline, this.store, this.closed, this.open, this.all);
    const view = this.view;
    const box = byId('rows');
    view.rows = rows;
    view.width = Math.max(320, box.clientWidth);
    view.height = Math.min(height + AXIS, Math.max(240, Math.round(innerHeight * 0.72)));
    byId('below').style.height = `${height + AXIS - view.height}px`;
    this.context = sizeCanvas(this.canvas, view.width, view.height);
    view.scroll = box.scrollTop;
    this.redraw();
  }

  /** Draws at the next frame, and loads what the view needs. */
  redraw() {
    const { begin, end } = this.view;
    if (this.store.isDetailed(begin, end)) void this.store.need(begin, end);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  drawNow() {
    if (!this.context || !this.palette) return;
    const { view, store } = this;
    draw(this.context, view, store, this.palette);
    byId('orphans').hidden = !this.palette.hasOrphans;
    drawWhole(/** @type {HTMLCanvasElement} */ (byId('whole')), view, store, this.palette, this.marks);
    byId('absent').textContent = this.missing();
    clearTimeout(this.still);
    this.still = setTimeout(() => this.tell(), STILL);
  }

  /** Fills the panel: what is selected, and below it the measured time, or what is in view. */
  tell() {
    const { view, store } = this;
    const whole = { begin: Math.max(this.first, view.begin), end: Math.min(this.whole, view.end) };
    const span = view.span ?? whole;
    // What is measured is counted, also where it is too much to be drawn.
    if (store.count <= MOST_LOADED && store.isComplete(span.begin, span.end)) void store.need(span.begin, span.end);
    const time = measured(store, span, view.worst, view.span !== null, !view.selected);
    fill(byId('selected'), html`${view.span && time}${view.selected && view.related &&
      panel(store, view.selected, view.related)}${!view.span && time}`);
    /** @type {HTMLButtonElement} */ (document.querySelector('[data-key="f"]')).disabled = !view.selected;
  }

  /** Measures a time; none: what is in view again. @param {{ begin: number, end: number } | null} span */
  measure(span) {
    this.view.span = span;
    this.tell();
    this.redraw();
    if (span) byId('live').textContent = byId('selected').querySelector('h3')?.textContent ?? '';
  }

  /** Shows what the verdict speaks of, at its worst. */
  async openMoment() {
    const { store, view, model: { report, hang } } = this;
    const found = await momentOf(report, store, hang, view.worst);
    if (found) this.show(found.begin, found.end);
    await store.need(view.begin, view.end);
    const isHang = report.verdict.finding === 'unfinished';
    const item = found?.item ?? null;
    if (item) this.select(item);
    fill(byId('moment'), item && sentenceOf(store, item) || (isHang && found ?
      html`<b>From the last operations that all ranks ended to the end of the recording.</b>` :
      html`${found ? `From ${duration(view.begin)} to ${duration(view.end)}` :
        report.run.operations > 0 ? 'From the first operation to the last' : 'The whole run'}.`));
    this.drawNow();
    this.tell();
  }

  /** What the view lacks. */
  missing() {
    const { store, view: { begin, end } } = this;
    if (!store.isDetailed(begin, end)) return '';
    if (store.absent(begin, end).length > 0) {
      return store.timeline.folder ? 'The files beside this page that have these events are missing.' :
        'Shares of time only: nccl-otf2 report --full keeps these events, too.';
    }
    if (store.isComplete(begin, end)) return '';
    const [here, all] = [store.eventsIn(begin, end), store.allIn(begin, end)].map(Math.round);
    return `The page has about ${number(Math.min(here, all))} of ${number(all)} events of this view: the longest of ` +
      'each row. Behind them are shares of time. nccl-otf2 report --from and --to make a page with all events of a ' +
      'time, --full keeps all.';
  }

  /** @param {number} begin @param {number} end */
  show(begin, end) {
    hideTip();
    const length = Math.min(this.whole - this.first, Math.max(50, end - begin));
    this.view.begin = Math.max(this.first, Math.min(this.whole - length, begin));
    this.view.end = this.view.begin + length;
    this.redraw();
  }

  /** @param {number} factor @param {number} [at] */
  zoom(factor, at = (this.view.begin + this.view.end) / 2) {
    const { begin, end } = this.view;
    this.show(at - (at - begin) * factor, at + (end - at) * factor);
  }

  /** @param {number} share */
  pan(share) {
    const length = this.view.end - this.view.begin;
    this.show(this.view.begin + length * share, this.view.end + length * share);
  }

  /** @param {Item | null} item @param {boolean} [fit] */
  select(item, fit = false) {
    const { view, store } = this;
    view.selected = item;
    view.related = item && related(store, item);
    this.tell();
    if (!item) return;
    byId('live').textContent = `${fullName(store, item)}, ${locationOf(store, item).name}: ${
      duration(endOf(item) - beginOf(item))}${item.events.waiting[item.at] > 0 ?
      `, waiting ${duration(item.events.waiting[item.at])}` : ''}`;
    if (fit) this.fit();
    else this.redraw();
  }

  /** Shows the selection with what belongs to it. */
  fit() {
    const { selected, related: found } = this.view;
    if (!selected) return;
    const all = [selected, ...(found?.peers ?? [])];
    const [begin, end] = [Math.min(...all.map(beginOf)), Math.max(...all.map(endOf))];
    const call = found?.call ? Math.max(beginOf(found.call), begin - (end - begin) * 2) : begin;
    const room = Math.max(50, (end - call) * 0.3);
    this.reveal(locationOf(this.store, selected).row);
    this.show(Math.min(begin, call) - room, end + room);
  }

  /** Scrolls a rank into view. @param {number} row */
  reveal(row) {
    const { host } = this.store.timeline.rows[row];
    if (this.closed.delete(host)) this.arrange();
    const place = this.view.rows.find((one) => one.what === 'rank' && one.row === row);
    const box = byId('rows');
    if (place && (place.y < box.scrollTop || place.y + 40 > box.scrollTop + this.view.height - AXIS)) {
      box.scrollTop = place.y - this.view.height / 3;
    }
  }

  /** @param {Set<number>} set @param {number} what */
  toggle(set, what) {
    if (!set.delete(what)) set.add(what);
    this.arrange();
  }

  toggleAll() {
    const { hosts, rows } = this.store.timeline;
    const all = this.open.size > 0;
    this.open = new Set(all ? [] : rows.map((_, row) => row));
    this.closed = new Set(all && rows.length > OPEN_RANKS ? hosts.map((_, host) => host) : []);
    this.arrange();
  }

  /** The event before or after the selected one, in its location. @param {number} step */
  next(step) {
    const { selected, begin } = this.view;
    if (!selected) return this.selectFirst(begin);
    const { events, at } = selected;
    const number_ = events.location[at];
    const run = events.runs.get(number_) ?? [0, 0];
    let item = at + step >= run[0] && at + step < run[1] ? { events, at: at + step } : null;
    for (let chunk = this.store.chunks.indexOf(events) + step; !item && this.store.chunks[chunk]; chunk += step) {
      const other = this.store.chunks[chunk];
      const there = other?.runs.get(number_);
      if (other && there) item = { events: other, at: step > 0 ? there[0] : there[1] - 1 };
    }
    if (item) this.keepInView(item);
  }

  /** @param {number} begin */
  selectFirst(begin) {
    const row = this.view.rows.find((one) => one.what === 'rank');
    let first = /** @type {Item | null} */ (null);
    for (const location_ of row?.locations ?? []) {
      this.store.each(location_, begin, this.view.end, (events, at) => {
        if (!first || events.begin[at] < beginOf(first)) first = { events, at };
      });
    }
    if (first) this.select(first);
  }

  /** The same operation on another rank. @param {number} step */
  otherRank(step) {
    const { related: found, selected } = this.view;
    if (!found || !selected) return this.selectFirst(this.view.begin);
    const { operation, peers } = found;
    const at = peers.findIndex((item) => item.at === operation?.at && item.events === operation.events);
    const item = peers[(at + step + peers.length) % peers.length];
    if (item) this.keepInView(item);
  }

  /** @param {Item} item */
  keepInView(item) {
    const { begin, end } = this.view;
    this.select(item);
    this.reveal(locationOf(this.store, item).row);
    if (endOf(item) < begin || beginOf(item) > end) {
      const middle = (beginOf(item) + endOf(item)) / 2;
      this.show(middle - (end - begin) / 2, middle + (end - begin) / 2);
    }
    history.replaceState(null, '', linkTo(item));
  }

  /** @param {string} query */
  async search(query) {
    const { store, view } = this;
    view.matches = matcher(query, store.timeline);
    this.hits = [];
    this.hit = -1;
    const say = byId('found');
    say.textContent = view.matches ? 'searching' : '';
    if (!view.matches) return this.redraw();
    const matches = view.matches;
    await store.needAll();
    if (matches !== view.matches) return;
    for (const item of store.all(({ kind }) => kind === 'operation')) {
      if (matches(item.events, item.at)) this.hits.push(item);
      if (this.hits.length >= MOST_HITS) break;
    }
    this.hits.sort((a, b) => beginOf(a) - beginOf(b));
    const partly = !store.isComplete(this.first, this.whole) ||
      store.timeline.chunks.some(({ at, events }) => at !== 'page' && events > 0);
    fill(say, html`${number(this.hits.length)} found${partly && unit(' in the events of this page')}`);
    this.redraw();
  }

  /** @param {number} step */
  nextHit(step) {
    if (this.hits.length === 0) return;
    this.hit = (this.hit + step + this.hits.length) % this.hits.length;
    byId('found').textContent = `${number(this.hit + 1)} of ${number(this.hits.length)}`;
    this.select(this.hits[this.hit], true);
    history.replaceState(null, '', linkTo(this.hits[this.hit]));
  }

  /** Shows what a link of the page names: `#at=BEGIN.LOCATION`, or `#anomaly=INDEX`. @param {string} hash */
  async follow(hash) {
    const [, what, first, place] = /^#(at|anomaly)=(\d+)(?:\.(\d+))?$/.exec(hash) ?? [];
    if (what === 'anomaly') return this.followAnomaly(this.model.report.anomalies[Number(first)]);
    if (what !== 'at' || place === undefined) return false;
    const begin = Number(first);
    this.comeIntoView();
    await this.store.need(begin, begin);
    let item = /** @type {Item | null} */ (null);
    this.store.each(Number(place), begin, begin, (events, at) => {
      if (!item || events.begin[at] === begin) item = { events, at };
    });
    await this.showItem(item, { begin: begin - 1e6, end: begin + 4e6 });
    return true;
  }

  /** @param {Anomaly | undefined} anomaly */
  async followAnomaly(anomaly) {
    if (!anomaly) return false;
    this.comeIntoView();
    const name = this.model.report.operations[anomaly.class]?.function;
    const item = await anomalyIn(this.store, anomaly, name);
    const room = (anomaly.end_ns - anomaly.start_ns) / 4;
    await this.showItem(item, { begin: anomaly.start_ns - room, end: anomaly.end_ns + room });
    return true;
  }

  /** @param {Item | null} item @param {{ begin: number, end: number }} time If the page does not have it */
  async showItem(item, { begin, end }) {
    if (!item) {
      this.select(null);
      this.show(begin, end);
      return;
    }
    await this.store.need(beginOf(item), endOf(item));
    this.select(item, true);
  }

  comeIntoView() {
    unfold(byId('timeline'));
    byId('timeline').scrollIntoView();
  }

  /** @param {number} begin @param {number} end @param {number} rank Of the report */
  goTo(begin, end, rank) {
    const row = this.store.timeline.rows.findIndex((one) => one.rank === rank);
    this.comeIntoView();
    if (row >= 0) this.reveal(row);
    this.show(begin, end);
  }
}
