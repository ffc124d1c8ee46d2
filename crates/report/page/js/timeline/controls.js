// Mouse and keys of the timeline.

import { byId, hideTip, showTip } from '#page/dom';
import { duration } from '#page/format';
import { entries, html } from '#page/html';
import { facts, title } from '#page/timeline/panel';
import { beginOf, linkTo, locationOf, related } from '#page/timeline/related';
import { rowAt } from '#page/timeline/rows';
import { AXIS, GUTTER, timeAt } from '#page/timeline/view';

/** @typedef {import('#page/timeline/timeline').TimelineView} TimelineView */
/** @typedef {import('#page/timeline/store').Item} Item */

/** The event at a place of the canvas. @param {TimelineView} timeline @param {MouseEvent} event */
function hitAt({ view, store }, { offsetX: x, offsetY: y }) {
  const found = y < AXIS ? null : rowAt(view.rows, y - AXIS + view.scroll);
  if (!found) return null;
  const { row, location } = found;
  const dense = !store.isDetailed(view.begin, view.end);
  if (x < GUTTER || row.what === 'host' || row.what === 'more' || dense) return { row, item: null };
  const slack = ((view.end - view.begin) / (view.width - GUTTER)) * 2;
  const at = timeAt(view, x);
  let item = /** @type {Item | null} */ (null);
  for (const one of row.what === 'rank' ? row.locations : [location]) {
    store.each(one, at - slack, at + slack, (events, index) => {
      item = { events, at: index };
    });
  }
  return { row, item };
}

/** @param {TimelineView} timeline @param {HTMLElement} element */
export function listen(timeline, element) {
  const { canvas } = timeline;
  const box = byId('rows');
  box.addEventListener('scroll', () => {
    timeline.view.scroll = box.scrollTop;
    timeline.redraw();
  });
  canvas.addEventListener('wheel', (event) => wheel(timeline, event), { passive: false });
  canvas.addEventListener('keydown', (event) => key(timeline, event));
  canvas.addEventListener('mouseleave', hideTip);
  drag(timeline);
  dragWhole(timeline);
  element.querySelectorAll('[data-key]').forEach((button) => button.addEventListener('click', () =>
    command(timeline, /** @type {HTMLElement} */ (button).dataset.key ?? '')));
  byId('selected').addEventListener('click', (event) => {
    const go = /** @type {HTMLElement} */ (event.target).dataset.go;
    if (go === 'link') void navigator.clipboard?.writeText(location.href);
    else if (go) timeline.next(go === 'next' ? 1 : -1);
  });
  const find = /** @type {HTMLInputElement} */ (byId('find'));
  find.addEventListener('input', () => void timeline.search(find.value));
  find.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') timeline.nextHit(event.shiftKey ? -1 : 1);
    if (event.key === 'Escape') {
      find.value = '';
      void timeline.search('');
      canvas.focus();
    }
  });
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    find.focus();
  });
}

/** @param {TimelineView} timeline @param {WheelEvent} event */
function wheel(timeline, event) {
  const focused = document.activeElement === timeline.canvas;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    timeline.pan((event.deltaX || event.deltaY) / 1000);
  } else if (event.ctrlKey || focused) {
    event.preventDefault();
    const at = timeAt(timeline.view, Math.max(GUTTER, event.offsetX));
    timeline.zoom(1.0018 ** Math.max(-250, Math.min(250, event.deltaY)), at);
  }
}

/** @param {TimelineView} timeline */
function drag(timeline) {
  const { canvas } = timeline;
  let from = /** @type {{ x: number, y: number, begin: number, moved: boolean, at: number | null } | null} */ (null);
  canvas.addEventListener('pointerdown', (event) => {
    const measures = (event.shiftKey || event.offsetY < AXIS) && event.offsetX >= GUTTER;
    from = { x: event.clientX, y: event.clientY, begin: timeline.view.begin, moved: false,
      at: measures ? timeAt(timeline.view, event.offsetX) : null };
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!from) return hover(timeline, event);
    const { begin, end, width } = timeline.view;
    if (!from.moved && Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y) < 4) return;
    if (!from.moved) canvas.setPointerCapture(event.pointerId);
    from.moved = true;
    hideTip();
    if (from.at !== null) {
      const to = timeAt(timeline.view, Math.max(GUTTER, Math.min(width, event.offsetX)));
      return timeline.measure({ begin: Math.min(from.at, to), end: Math.max(from.at, to) });
    }
    const start = from.begin - ((event.clientX - from.x) / (width - GUTTER)) * (end - begin);
    byId('rows').scrollTop -= event.movementY;
    timeline.show(start, start + end - begin);
  });
  canvas.addEventListener('pointerup', (event) => {
    if (from && !from.moved) click(timeline, event);
    from = null;
  });
}

/** @param {TimelineView} timeline */
function dragWhole(timeline) {
  const whole = /** @type {HTMLCanvasElement} */ (byId('whole'));
  const move = (/** @type {PointerEvent} */ event) => {
    const length = timeline.view.end - timeline.view.begin;
    const { first, whole: end } = timeline;
    const at = first + ((event.offsetX - GUTTER) / (timeline.view.width - GUTTER)) * (end - first);
    timeline.show(at - length / 2, at + length / 2);
  };
  whole.addEventListener('pointerdown', (event) => {
    whole.setPointerCapture(event.pointerId);
    // A drag over the whole run needs a window that can be moved.
    if (timeline.view.end - timeline.view.begin > (timeline.whole - timeline.first) * 0.5) timeline.zoom(0.1);
    move(event);
  });
  whole.addEventListener('pointermove', (event) => event.buttons > 0 && move(event));
}

/** @param {TimelineView} timeline @param {MouseEvent} event */
function hover(timeline, event) {
  const hit = hitAt(timeline, event);
  const { right } = timeline.canvas.getBoundingClientRect();
  if (!hit?.item) return hideTip();
  const { store } = timeline;
  const found = related(store, hit.item);
  const late = found.last && found.operation ? beginOf(found.last) - beginOf(found.operation) : 0;
  showTip(html`<h4>${title(store, hit.item)}</h4>${entries(facts(store, hit.item))}${found.last && html`<p>Last:
    <span class="hot">${store.timeline.rows[locationOf(store, found.last).row].name}</span>${late > 0 &&
    `, ${duration(late)} after this one`}.</p>`}`, event, right);
}

/** @param {TimelineView} timeline @param {MouseEvent} event */
function click(timeline, event) {
  const hit = hitAt(timeline, event);
  timeline.canvas.focus({ preventScroll: true });
  if (!hit) return timeline.measure(null);
  if (hit.row.what === 'more') timeline.toggle(timeline.all, hit.row.row);
  else if (hit.row.what === 'host') timeline.toggle(timeline.closed, hit.row.host);
  else if (hit.row.what === 'rank' && event.offsetX < GUTTER) timeline.toggle(timeline.open, hit.row.row);
  else if (hit.item) {
    timeline.select(hit.item);
    history.replaceState(null, '', linkTo(hit.item));
  } else if (!timeline.store.isDetailed(timeline.view.begin, timeline.view.end)) {
    timeline.zoom(0.1, timeAt(timeline.view, event.offsetX));
  }
}

/** @param {TimelineView} timeline @param {KeyboardEvent} event */
function key(timeline, event) {
  if (event.ctrlKey || event.altKey || event.metaKey || !command(timeline, event.key)) return;
  event.preventDefault();
}

/** What a key or its button does. @param {TimelineView} timeline @param {string} name */
function command(timeline, name) {
  const { rows, selected } = timeline.view;
  const row = selected ? locationOf(timeline.store, selected).row : rows.find((one) => one.what === 'rank')?.row ?? 0;
  const commands = /** @type {Record<string, () => void>} */ ({
    w: () => timeline.zoom(0.6), s: () => timeline.zoom(1 / 0.6),
    a: () => timeline.pan(-0.25), d: () => timeline.pan(0.25),
    0: () => timeline.show(timeline.first, timeline.whole), f: () => timeline.fit(), e: () => timeline.toggleAll(),
    m: () => timeline.measure({ begin: timeline.view.begin, end: timeline.view.end }),
    Enter: () => timeline.toggle(timeline.open, row), Escape: () => {
      timeline.view.span = null;
      timeline.select(null);
      timeline.redraw();
    },
    ArrowLeft: () => timeline.next(-1), ArrowRight: () => timeline.next(1),
    ArrowUp: () => timeline.otherRank(-1), ArrowDown: () => timeline.otherRank(1),
  });
  commands[name]?.();
  return name in commands;
}
