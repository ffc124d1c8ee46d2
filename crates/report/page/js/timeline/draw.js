// Draws the timeline: a view of some time and some rows on a canvas.

import { sizeCanvas } from '#page/dom';
import { duration, moment } from '#page/format';
import { visible as plain } from '#page/html';
import { LAUNCH } from '#page/timeline/palette';
import { fullName, locationOf } from '#page/timeline/related';
import { drawSelection } from '#page/timeline/selection';
import { AXIS, GUTTER, ticks, timeAt, topOf, xOf } from '#page/timeline/view';

/** @typedef {import('#page/timeline/store').Store} Store */
/** @typedef {import('#page/timeline/store').Item} Item */
/** @typedef {import('#page/timeline/rows').Row} Row */
/** @typedef {import('#page/encoding').Events} Events */
/** @typedef {import('#page/timeline/palette').Palette} Palette */

/** @typedef {import('#page/timeline/view').View} View */

const COLUMN = 2;

/** @param {CanvasRenderingContext2D} context @param {View} view @param {Store} store @param {Palette} palette */
export function draw(context, view, store, palette) {
  const { width, height } = view;
  context.fillStyle = palette.get('bg');
  context.fillRect(0, 0, width, height);
  context.textBaseline = 'middle';
  context.save();
  context.beginPath();
  context.rect(GUTTER, AXIS, width - GUTTER, height - AXIS);
  context.clip();
  for (const at of ticks(view)) {
    context.fillStyle = palette.get('line');
    context.fillRect(Math.round(xOf(view, at)), AXIS, 1, height);
  }
  const frame = new Frame(context, view, store, palette);
  const visible = view.rows.filter((row) => topOf(view, row) < height && topOf(view, row) + row.height > AXIS);
  for (const row of visible) frame.row(row);
  if (view.span) drawSpan(frame, view.span);
  if (view.selected) drawSelection(frame);
  context.restore();
  for (const row of visible) gutter(context, view, row, palette);
  axis(context, view, palette);
}

export class Frame {
  /** @param {CanvasRenderingContext2D} context @param {View} view @param {Store} store @param {Palette} palette */
  constructor(context, view, store, palette) {
    this.context = context;
    this.view = view;
    this.store = store;
    this.palette = palette;
    this.pixel = (view.end - view.begin) / (view.width - GUTTER);
    this.detailed = store.isDetailed(view.begin, view.end);
    const { rows, overview } = store.timeline;
    /** Whether shares of time stand for events that are not in the page. */
    this.partial = !store.isComplete(view.begin, view.end);
    const events = this.partial ? store.allIn(view.begin, view.end) : store.eventsIn(view.begin, view.end);
    const crowded = events / Math.max(1, rows.length) > view.width * 0.5 && this.operationsOfRank() > view.width / 12;
    /** Whether ranks are shown as shares of time. */
    this.dense = !this.detailed || (crowded && this.pixel * COLUMN > overview.bin_ns);
  }

  /** How many operations a rank has in view, of those that are loaded; the most of some ranks. */
  operationsOfRank() {
    const { begin, end, rows } = this.view;
    const counts = rows.filter(({ what }) => what === 'rank').slice(0, 8).map(({ locations }) => {
      let count = 0;
      for (const location of locations) this.store.each(location, begin, end, () => count++);
      return count;
    });
    return Math.max(0, ...counts);
  }

  /** @param {Row} row */
  row(row) {
    const { context, palette, view, store } = this;
    const y = topOf(view, row);
    if (row.what === 'host') {
      context.fillStyle = palette.get('raise');
      context.fillRect(GUTTER, y, view.width, row.height);
      if (!row.open) this.shares(store.timeline.rows.flatMap(({ host }, at) => (host === row.host ? [at] : [])), y, 18);
    } else if (row.what === 'rank') {
      if (this.dense) this.shares([row.row], y, row.height);
      else {
        if (this.partial) this.behind(row.row, y, row.height);
        this.operations(row, y);
      }
    } else if (row.what === 'locations' && this.detailed) {
      row.locations.forEach((location, lane) => this.location(row, location, y + 1 + lane * row.lane));
    } else if (row.what === 'locations') {
      context.font = `10.5px ${palette.sans}`;
      context.fillStyle = palette.get('ink-3');
      context.fillText('zoom in for its events', GUTTER + 6, y + Math.min(row.height, 16) / 2);
    }
  }

  /** Shares of time behind the events that are in the page. @param {number} row @param {number} y
   * @param {number} height */
  behind(row, y, height) {
    this.context.globalAlpha = 0.35;
    this.shares([row], y, height);
    this.context.globalAlpha = 1;
  }

  /** Shares of time in transfer and in waiting. @param {number[]} rows @param {number} y @param {number} height */
  shares(rows, y, height) {
    const { context, palette, view, store } = this;
    const { bin_ns: length, bins } = store.timeline.overview;
    const sums = rows.map((row) => store.sumsOf(row));
    const at = (/** @type {Float64Array} */ values, /** @type {number} */ place) => {
      const bin = Math.max(0, Math.min(bins - 1e-9, place));
      const low = Math.floor(bin);
      return values[low] + (values[low + 1] - values[low]) * (bin - low);
    };
    const room = height - 4;
    const origin = store.timeline.begin_ns;
    for (let x = GUTTER; x < view.width; x += COLUMN) {
      const from = (timeAt(view, x) - origin) / length;
      const to = (timeAt(view, x + COLUMN) - origin) / length;
      let [transfer, waiting] = [0, 0];
      for (const sum of sums) {
        transfer += at(sum.transfer, to) - at(sum.transfer, from);
        waiting += at(sum.waiting, to) - at(sum.waiting, from);
      }
      const whole = (to - from) * rows.length;
      const [moved, waited] = [transfer / whole, waiting / whole].map((share) => Math.min(1, share) * room);
      if (moved + waited < 0.2) continue;
      const bin = Math.max(0, Math.min(bins - 1, Math.floor((from + to) / 2)));
      context.fillStyle = palette.hatch;
      context.fillRect(x, y + 2 + room - moved - waited, COLUMN, waited);
      context.fillStyle = this.functionFill(store.functionOf(rows[0], bin));
      context.fillRect(x, y + 2 + room - moved, COLUMN, moved);
    }
  }

  /** @param {number} index */
  functionFill(index) {
    return this.palette.regions[this.store.timeline.functions[index]]?.fill ?? this.palette.get('seq');
  }

  /** @param {Row} row @param {number} y */
  operations(row, y) {
    for (const location of row.locations) {
      this.store.each(location, this.view.begin, this.view.end, (events, at) => {
        this.operation(events, at, y + 2, row.height - 4);
      });
    }
  }

  /** @param {Events} events @param {number} at @param {number} y @param {number} height */
  operation(events, at, y, height) {
    const { context, view, palette } = this;
    if (this.store.isUnfinished(events, at)) {
      this.unfinished(events, at, y, height);
      return;
    }
    const region = palette.regions[events.name[at]];
    const arrived = events.begin[at] + Math.max(0, events.waiting[at]);
    const [left, middle, right] = [events.begin[at], arrived, events.end[at]].map((ns) =>
      Math.max(GUTTER - 4, Math.min(view.width + 4, xOf(view, ns))));
    context.globalAlpha = view.matches && !view.matches(events, at) ? 0.18 : 1;
    if (middle - left > 0.4) {
      context.fillStyle = palette.hatch;
      context.fillRect(left, y, middle - left, height);
      if (middle - left > 9) {
        context.strokeStyle = palette.get('hatch');
        context.lineWidth = 1;
        context.strokeRect(left + 0.5, y + 0.5, middle - left - 1, height - 1);
      }
    }
    const width = Math.max(1, right - middle);
    context.fillStyle = region.fill;
    context.fillRect(middle, y, width, height);
    if (width > 4) {
      context.strokeStyle = region.edge;
      context.lineWidth = 1;
      context.strokeRect(middle + 0.5, y + 0.5, width - 1, height - 1);
    }
    context.font = `10.5px ${palette.sans}`;
    if (width > 56 && height > 12) {
      context.fillStyle = region.text;
      const label = events.sequence[at] < 0 || width < 110 ? region.label : `${region.label} ${events.sequence[at]}`;
      context.fillText(label, Math.max(GUTTER, middle) + 5, y + height / 2 + 0.5, width - 8);
    }
    context.globalAlpha = 1;
  }

  /** Neither waiting nor transfer: which of them it was is not known. @param {Events} events @param {number} at
   * @param {number} y @param {number} height */
  unfinished(events, at, y, height) {
    const { context, view, palette } = this;
    const [left, right] = [events.begin[at], events.end[at]].map((ns) =>
      Math.max(GUTTER - 4, Math.min(view.width + 4, xOf(view, ns))));
    const width = Math.max(1, right - left);
    context.globalAlpha = view.matches && !view.matches(events, at) ? 0.18 : 1;
    context.fillStyle = palette.get('hang-soft');
    context.fillRect(left, y, width, height);
    context.strokeStyle = palette.get('hang');
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, y + 0.5, Math.max(0, width - 1), height - 1);
    if (width > 120 && height > 12) {
      context.font = `10.5px ${palette.sans}`;
      context.fillStyle = palette.get('hang');
      context.fillText(`${palette.regions[events.name[at]].label}, not ended`, Math.max(GUTTER, left) + 5,
        y + height / 2 + 0.5, width - 8);
    }
    context.globalAlpha = 1;
  }

  /** @param {Row} row @param {number} location @param {number} y */
  location(row, location, y) {
    const { context, view, palette, store } = this;
    const height = Math.max(2, row.lane - 1);
    if (row.kind === 'operation') {
      store.each(location, view.begin, view.end, (events, at) => this.operation(events, at, y, height - 1));
      return;
    }
    if (row.kind === 'range') {
      store.each(location, view.begin, view.end, (events, at) => this.range(events, at, y, height));
      return;
    }
    let drawn = -Infinity;
    store.each(location, view.begin, view.end, (events, at) => {
      const left = Math.max(GUTTER - 4, xOf(view, events.begin[at]));
      const width = Math.max(1, Math.min(view.width, xOf(view, events.end[at])) - left);
      // What falls on a pixel that is filled already is not seen.
      if (width <= 1 && left < drawn + 0.5) return;
      drawn = left;
      context.globalAlpha = view.matches && !view.matches(events, at) ? 0.18 : 1;
      context.fillStyle = this.fill(row, events, at);
      context.fillRect(left, y, width, height);
      if (row.kind === 'call' && width > 3) {
        context.strokeStyle = palette.get('bg');
        context.lineWidth = 0.5;
        context.strokeRect(left, y, width, height);
      }
    });
    context.globalAlpha = 1;
  }

  /** A range of the program; its colour is the program's. @param {Events} events @param {number} at
   * @param {number} y @param {number} height */
  range(events, at, y, height) {
    const { context, view, palette, store } = this;
    const left = Math.max(GUTTER - 4, xOf(view, events.begin[at]));
    const width = Math.max(1, Math.min(view.width, xOf(view, events.end[at])) - left);
    const isUnfinished = store.isUnfinished(events, at);
    context.globalAlpha = view.matches && !view.matches(events, at) ? 0.18 : 1;
    context.fillStyle = palette.get(isUnfinished ? 'hang-soft' : 'raise');
    context.fillRect(left, y, width, height);
    context.fillStyle = store.colourOf(events, at) ?? palette.get(isUnfinished ? 'hang' : 'line-2');
    context.fillRect(left, y, Math.min(2, width), height);
    if (width > 30) {
      const label = fullName(store, { events, at });
      context.font = `10px ${palette.sans}`;
      context.fillStyle = palette.get('ink');
      context.fillText(fitting(context, label, width - 8), Math.max(GUTTER, left) + 5, y + height / 2 + 0.5);
    }
    context.globalAlpha = 1;
  }

  /** @param {Row} row @param {Events} events @param {number} at */
  fill(row, events, at) {
    const { palette, store } = this;
    const name = store.timeline.names[events.name[at]];
    if (name === LAUNCH) return palette.get('launch');
    if (store.isUnfinished(events, at)) return palette.get('hang-soft');
    if (row.kind === 'step') {
      const isWaiting = 2 * events.waiting[at] > events.end[at] - events.begin[at];
      return isWaiting ? palette.flat : palette.get('seq');
    }
    // Transfers and channels have the colour of their operation.
    const { kind } = store.timeline.locations[events.location[at]];
    if (kind === 'transfer' || kind === 'channel') {
      let parent = store.byNumber(events.parent[at]);
      // A phase has its channel in between.
      if (parent && locationOf(store, parent).kind === kind) {
        parent = store.byNumber(parent.events.parent[parent.at]);
      }
      if (parent) return palette.regions[parent.events.name[parent.at]].fill;
      palette.hasOrphans = true;
      return palette.get('seq');
    }
    return palette.regions[events.name[at]].fill;
  }
}

/** A text as far as there is room. @param {CanvasRenderingContext2D} context @param {string} text
 * @param {number} room */
function fitting(context, text, room) {
  const shown = plain(text);
  const { width } = context.measureText(shown);
  return width <= room ? shown : `${shown.slice(0, Math.max(1, Math.floor((shown.length * room) / width) - 1))}…`;
}

/** @param {CanvasRenderingContext2D} context @param {View} view @param {Row} row @param {Palette} palette */
function gutter(context, view, row, palette) {
  const y = topOf(view, row);
  context.save();
  context.beginPath();
  context.rect(0, AXIS, GUTTER - 2, view.height);
  context.clip();
  const hot = row.what === 'rank' && row.row === view.worst;
  context.fillStyle = row.what === 'host' ? palette.get('raise') : palette.get('bg');
  context.fillRect(0, y, GUTTER, row.height);
  const weight = row.what === 'host' || hot ? 600 : 400;
  const inside = row.what === 'locations' || row.what === 'more';
  context.font = `${weight} ${inside ? 10.5 : 11.5}px ${palette.sans}`;
  context.fillStyle = palette.get(hot ? 'accent' : inside ? 'ink-2' : 'ink');
  const middle = y + Math.min(row.height, 22) / 2 + 0.5;
  const left = row.what === 'host' ? 20 : row.what === 'rank' ? 28 : row.what === 'more' ? 49 : 36;
  context.fillText(fitting(context, row.label, GUTTER - left - 6), left, middle);
  if (row.what !== 'locations') {
    context.fillStyle = palette.get('ink-3');
    context.fillText(row.open ? '▾' : '▸', left - 13, middle);
  }
  context.restore();
}

/** @param {CanvasRenderingContext2D} context @param {View} view @param {Palette} palette */
function axis(context, view, palette) {
  context.fillStyle = palette.get('bg');
  context.fillRect(0, 0, view.width, AXIS);
  context.font = `10.5px ${palette.sans}`;
  context.fillStyle = palette.get('ink-2');
  context.fillText(`${duration(view.end - view.begin)} wide`, 8, AXIS / 2, GUTTER - 12);
  const times = ticks(view);
  const step = times.length > 1 ? times[1] - times[0] : view.end - view.begin;
  for (const at of times) {
    const text = moment(at, view.end, step);
    context.fillText(text, Math.min(view.width - context.measureText(text).width - 2, xOf(view, at) + 4), AXIS - 9);
    context.fillRect(Math.round(xOf(view, at)), AXIS - 5, 1, 5);
  }
  context.fillStyle = palette.get('line-2');
  context.fillRect(0, AXIS - 1, view.width, 1);
  context.fillRect(GUTTER - 1, 0, 1, view.height);
}

/** The time that is measured, over all rows. @param {Frame} frame @param {{ begin: number, end: number }} span */
function drawSpan({ context, view, palette }, { begin, end }) {
  const [left, right] = [begin, end].map((ns) => xOf(view, ns));
  context.fillStyle = palette.get('accent');
  context.globalAlpha = 0.1;
  context.fillRect(left, AXIS, right - left, view.height);
  context.globalAlpha = 1;
  for (const x of [left, right]) context.fillRect(Math.round(x), AXIS, 1, view.height);
}

/**
 * The whole run in small, with the view as a window.
 * @param {HTMLCanvasElement} canvas
 * @param {View} view
 * @param {Store} store
 * @param {Palette} palette
 * @param {number[]} marks Times of anomalies
 */
export function drawWhole(canvas, view, store, palette, marks) {
  const { begin_ns: begin, duration_ns: whole, rows, complete } = store.timeline;
  const height = 40;
  const context = sizeCanvas(canvas, view.width, height);
  const all = { ...view, begin, end: whole };
  context.fillStyle = palette.get('bg');
  context.fillRect(0, 0, view.width, height);
  new Frame(context, all, store, palette).shares(rows.slice(0, 256).map((_, at) => at), -2, height + 2);
  context.font = `10.5px ${palette.sans}`;
  context.textBaseline = 'middle';
  context.fillStyle = palette.get('ink-2');
  context.fillText(begin > 0 ? 'this part' : 'whole run', 8, 14);
  context.fillText(duration(whole - begin), 8, 28);
  const [left, right] = [view.begin, view.end].map((ns) => xOf(all, ns));
  context.globalAlpha = 0.6;
  context.fillStyle = palette.get('bg');
  context.fillRect(GUTTER, 0, left - GUTTER, height);
  context.fillRect(right, 0, view.width - right, height);
  context.globalAlpha = 1;
  if (!store.isComplete(begin, whole)) {
    context.fillStyle = palette.get('ink-2');
    for (const [from, to] of complete) {
      const x = xOf(all, from);
      context.fillRect(x, height - 3, Math.max(2, xOf(all, to) - x), 3);
    }
  }
  context.strokeStyle = palette.get('accent');
  context.lineWidth = 1.5;
  context.strokeRect(left - 0.5, 1, Math.max(3, right - left), height - 2);
  context.fillStyle = palette.get('accent');
  for (const mark of marks) {
    const x = xOf(all, mark);
    context.beginPath();
    context.moveTo(x - 3, 0);
    context.lineTo(x + 3, 0);
    context.lineTo(x, 5);
    context.fill();
  }
}
