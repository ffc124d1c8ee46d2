// What happened in a time: how many operations of each function, their time, and who waited.

import { dot } from '#page/dom';
import { duration, number, operationName, percent } from '#page/format';
import { html } from '#page/html';

/** @typedef {import('#page/timeline/store').Store} Store */

/** Times within the span; `open` is that of what had not ended, which is in neither of the others; `compared`: of how
 * many operations the waiting is known.
 * @typedef {{ count: number, ns: number, waiting: number, open: number, compared: number }} Sum */
/** @typedef {{ byName: Map<string, Sum>, byRow: Sum[], unfinished: number, complete: boolean }} Measured */

const MOST_RANKS = 16;

/** @param {Store} store @param {number} begin @param {number} end @returns {Measured} */
export function measure(store, begin, end) {
  const { timeline } = store;
  const none = () => ({ count: 0, ns: 0, waiting: 0, open: 0, compared: 0 });
  const found = { byName: /** @type {Map<string, Sum>} */ (new Map()), byRow: timeline.rows.map(none), unfinished: 0,
    complete: store.isLoaded(begin, end) };
  if (!found.complete) return shares(store, begin, end, found);
  const within = (/** @type {number} */ from, /** @type {number} */ to) =>
    Math.max(0, Math.min(end, to) - Math.max(begin, from));
  timeline.locations.forEach(({ kind, row }, location) => {
    if (kind !== 'operation') return;
    store.each(location, begin, end, (events, at) => {
      const [from, to, waiting] = [events.begin[at], events.end[at], Math.max(0, events.waiting[at])];
      const name = timeline.names[events.name[at]];
      // What runs several operations as one is not another.
      if (name.includes('+')) return;
      const sum = found.byName.get(name) ?? none();
      found.byName.set(name, sum);
      const isOpen = store.isUnfinished(events, at);
      found.unfinished += Number(isOpen);
      for (const one of [sum, found.byRow[row]]) {
        one.count += 1;
        one.compared += Number(events.waiting[at] >= 0);
        one.open += isOpen ? within(from, to) : 0;
        one.ns += isOpen ? 0 : within(from, to);
        one.waiting += isOpen ? 0 : within(from, from + waiting);
      }
    });
  });
  return found;
}

/** Of events that are not in the page only shares of time are known. @param {Store} store @param {number} begin
 * @param {number} end @param {Measured} found */
function shares(store, begin, end, found) {
  const { begin_ns: origin, overview: { bin_ns: length, bins } } = store.timeline;
  const [from, to] = [begin, end].map((ns) => Math.max(0, Math.min(bins, Math.round((ns - origin) / length))));
  found.byRow.forEach((sum, row) => {
    const { transfer, waiting } = store.sumsOf(row);
    sum.waiting = (waiting[to] - waiting[from]) * length;
    sum.ns = sum.waiting + (transfer[to] - transfer[from]) * length;
  });
  return found;
}

/** @param {Store} store @param {{ begin: number, end: number }} span
 * @param {number | null} worst The row of the rank that the verdict names @param {boolean} isChosen
 * @param {boolean} isAlone Whether the panel has nothing else */
export function measured(store, { begin, end }, worst, isChosen, isAlone) {
  const found = measure(store, begin, end);
  const { byName, unfinished, complete } = found;
  const names = [...byName].sort(([, a], [, b]) => b.ns - a.ns);
  const who = waited(store, found, worst, end - begin);
  return html`<div><h3>${isChosen ? 'Selected time' : 'In view'}: ${duration(end - begin)}</h3>
    ${names.length > 0 && html`<table class="tight"><thead><tr><th scope="col">operations</th><th scope="col"
    class="n">count</th><th scope="col" class="n">time</th><th scope="col" class="n">waiting</th></tr></thead><tbody>
    ${names.map(([name, sum]) => html`<tr><th scope="row">${dot(name)}${operationName(name)}</th><td class="n">${
      number(sum.count)}</td><td class="n">${duration(sum.ns || null)}</td><td class="n">${duration(
      sum.compared > 0 ? sum.waiting : null)}</td></tr>`)}
    </tbody></table>`}${unfinished > 0 && html`<p class="hot">${number(unfinished)} of them had not
    ended, for ${duration(names.reduce((all, [, { open }]) => all + open, 0))} in total.</p>`}
    ${!complete && html`<p class="u">From shares of time: not all events of this time are loaded.</p>`}${
    !isAlone && who}</div>${isAlone && html`<div>${who}</div>`}`;
}

/** Who waited, the least first: whom the others wait for. @param {Store} store @param {Measured} found
 * @param {number | null} worst @param {number} length */
function waited(store, { byRow, complete }, worst, length) {
  const whole = (/** @type {Sum} */ { waiting, open }) => waiting + open;
  const isUnknown = (/** @type {Sum} */ { count, compared, open }) =>
    count > 0 && compared === 0 && open === 0;
  const total = (/** @type {(sum: Sum) => number} */ of) => byRow.reduce((sum, row) => sum + of(row), 0);
  const [count, compared] = [total((row) => row.count), total((row) => row.compared)];
  if (total(({ ns, open }) => ns + open) === 0) return '';
  if (total(whole) === 0) {
    return html`<p>${!complete ? 'Who waited is not known: shares of time show no wait.' : compared === 0 ?
      'Who waited is not known: the arrivals of these operations cannot be compared.' :
      html`No wait is seen that is longer than the clocks’ error${compared < count && html`, in ${number(compared)} of
        ${number(count)} operations; of the others it is not known`}.`}</p>`;
  }
  const rows = byRow.map((sum, row) => ({ ...sum, row, name: store.timeline.rows[row].name }))
    .sort((a, b) => Number(isUnknown(a)) - Number(isUnknown(b)) || whole(a) - whole(b));
  // The rank that the verdict names is never cut off.
  const shown = rows.filter(({ row }, at) => at < MOST_RANKS || row === worst);
  const most = Math.max(...rows.map(whole));
  const width = (/** @type {number} */ ns) => `width:${((ns / most) * 100).toFixed(1)}%`;
  const line = (/** @type {typeof rows[0]} */ row) => html`<tr class="${row.row === worst ? 'mark' : ''}"><th
    scope="row">${row.name}</th><td style="width:50%"><div class="bar"><i class="hatched"
    style="${width(row.waiting)}"></i><i class="unfinished" style="${width(row.open)}"></i></div></td><td class="n">${
    duration(isUnknown(row) ? null : whole(row))}</td><td class="n">${
    percent(isUnknown(row) ? null : whole(row) / length)}</td></tr>`;
  const how = total(({ open }) => open) > 0 ? ', or was in what had not ended' :
    complete && compared === count ? '' : ', as far as waiting is known';
  return html`<h4>Who waited${how}; whom the others wait for comes first</h4><table class="tight"><tbody>${
    shown.map(line)}</tbody></table>${rows.length > shown.length && html`<p class="u">and ${
    number(rows.length - shown.length)} more, up to ${duration(most)}</p>`}`;
}
