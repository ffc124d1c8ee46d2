// Draws what belongs to the selected event: its operation on all ranks, and the way from the call to the network.

import { duration } from '#page/format';
import { beginOf, endOf, locationOf } from '#page/timeline/related';
import { AXIS, topOf, xOf } from '#page/timeline/view';

/** @typedef {import('#page/timeline/draw').Frame} Frame */
/** @typedef {import('#page/timeline/store').Item} Item */

/** @param {Frame} frame */
export function drawSelection(frame) {
  const { context, view, palette } = frame;
  const { related, selected } = view;
  if (!related || !selected) return;
  context.strokeStyle = palette.get('accent');
  context.fillStyle = palette.get('accent');
  context.lineJoin = 'round';
  const place = box(frame, selected);
  // In front of what overlaps it.
  if (place && selected === related.operation && !frame.dense) {
    frame.operation(selected.events, selected.at, place.y, place.height);
  }
  if (related.peers.length > 1 && !frame.dense) arrivals(frame, related.peers, related.last);
  if (related.last) lastArrival(frame, related.peers, related.last);
  const boxes = [related.call, related.launch, related.operation, ...related.work.slice(0, 64)];
  context.lineWidth = 1.5;
  for (const item of boxes) if (item) outline(frame, item, palette.get('accent'));
  outline(frame, selected, palette.get('ink'));
  arrow(frame, related.call, related.launch);
  arrow(frame, related.launch ?? related.call, related.operation);
  arrow(frame, related.operation, related.work[0] ?? null);
}

/**
 * Where an event is drawn: in its location where that is open, else in its rank.
 * @param {Frame} frame
 * @param {Item} item
 */
function box({ view, store }, item) {
  const { row: wanted } = locationOf(store, item);
  const location = item.events.location[item.at];
  const rows = view.rows.filter((row) => row.row === wanted && row.what !== 'host');
  const own = rows.find((row) => row.what === 'locations' && row.locations.includes(location));
  const row = own ?? rows.find((one) => one.what === 'rank' && one.locations.includes(location));
  if (!row) return null;
  const x = xOf(view, beginOf(item));
  const y = topOf(view, row) + (own ? 1 + row.locations.indexOf(location) * row.lane : 2);
  return { x, y, width: Math.max(3, xOf(view, endOf(item)) - x), height: own ? row.lane - 1 : row.height - 4 };
}

/** @param {Frame} frame @param {Item} item @param {string} colour */
function outline(frame, item, colour) {
  const place = box(frame, item);
  if (!place) return;
  frame.context.strokeStyle = colour;
  frame.context.strokeRect(place.x - 1, place.y - 0.5, place.width + 2, place.height + 1);
}

/**
 * Joins the arrivals of the ranks that are shown.
 * @param {Frame} frame
 * @param {Item[]} peers
 * @param {Item | null} last
 */
function arrivals({ context, view, store, palette }, peers, last) {
  const points = peers.flatMap((item) => {
    const row = view.rows.find((one) => one.what === 'rank' && one.row === locationOf(store, item).row);
    return row ? [{ item, x: xOf(view, beginOf(item)), y: topOf(view, row) + row.height / 2 }] : [];
  });
  context.strokeStyle = palette.get('accent');
  context.lineWidth = 1.5;
  context.beginPath();
  points.forEach(({ x, y }, at) => {
    if (at === 0) context.moveTo(x, y);
    else {
      const before = points[at - 1];
      context.lineTo(before.x, y - 16);
      context.bezierCurveTo(before.x, y - 11, x, y - 14, x, y - 8);
      context.lineTo(x, y);
    }
  });
  context.stroke();
  for (const { item, x, y } of points) {
    context.fillStyle = palette.get(item === last ? 'accent' : 'bg');
    context.beginPath();
    context.arc(x, y, 3, 0, 7);
    context.fill();
    context.stroke();
  }
}

/** @param {Frame} frame @param {Item[]} peers @param {Item} last */
function lastArrival({ context, view, store, palette }, peers, last) {
  const x = xOf(view, beginOf(last));
  context.lineWidth = 1;
  context.setLineDash([3, 3]);
  context.beginPath();
  context.moveTo(x, AXIS);
  context.lineTo(x, view.height);
  context.stroke();
  context.setLineDash([]);
  const others = peers.filter((item) => item !== last).map(beginOf);
  const name = store.timeline.rows[locationOf(store, last).row].name;
  const text = `last: ${name}, + ${duration(beginOf(last) - Math.max(...others))}`;
  context.font = `600 10.5px ${palette.sans}`;
  const width = context.measureText(text).width + 8;
  const left = Math.min(view.width - width - 2, x + 4);
  context.fillStyle = palette.get('bg');
  context.fillRect(left, AXIS + 1, width, 16);
  context.fillStyle = palette.get('accent');
  context.fillText(text, left + 4, AXIS + 9.5);
}

/**
 * From the end of one event to the begin of another.
 * @param {Frame} frame
 * @param {Item | null} from
 * @param {Item | null} to
 */
function arrow(frame, from, to) {
  const [start, end] = [from && box(frame, from), to && box(frame, to)];
  if (!start || !end || (start.x === end.x && start.y === end.y)) return;
  const { context, palette } = frame;
  const [x, y] = [Math.min(start.x + start.width, Math.max(start.x + 1, end.x)), start.y + start.height / 2];
  const [toX, toY] = [end.x, end.y + end.height / 2];
  const bend = Math.max(14, Math.min(60, Math.abs(toX - x) / 2));
  context.strokeStyle = palette.get('accent');
  context.fillStyle = palette.get('accent');
  context.lineWidth = 1.4;
  context.beginPath();
  context.moveTo(x, y);
  context.bezierCurveTo(x + bend, y, toX - bend, toY, toX - 5, toY);
  context.stroke();
  context.beginPath();
  context.moveTo(toX, toY);
  context.lineTo(toX - 7, toY - 3.5);
  context.lineTo(toX - 7, toY + 3.5);
  context.fill();
}
