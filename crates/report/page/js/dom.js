// What all sections of the page share: elements, tables, the tooltip, canvases, colours.

import { html } from '#page/html';

/** @typedef {import('#page/html').Html} Html */

/** @param {string} id */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element ${id}`);
  return element;
}

/** @param {Element} element @param {Html} content */
export function fill(element, content) {
  element.innerHTML = content.text;
}

/** Marked rows that are shown though others are folded. */
const MOST_MARKED = 4;

/** In a window as narrow as a phone's, only what the verdict is about is unfolded. */
export const NARROW = 600;

/**
 * Adds a section to the page, and returns what is below its heading.
 * @param {string} id
 * @param {string} title
 * @param {string} command What prints the same
 * @param {Html} lede
 * @param {{ open?: boolean | 'always', half?: boolean }} [options] `half`: beside another in a wide window
 */
export function section(id, title, command, lede, { open = true, half = false } = {}) {
  const element = document.createElement('section');
  element.id = id;
  if (half) element.className = 'half';
  const isOpen = open === 'always' || open && innerWidth > NARROW;
  fill(element, html`<details${isOpen ? html` open` : ''}><summary><h2>${title}</h2>${
    command && html`<code>${command}</code>`}<p class="lede">${lede}</p></summary><div class="body"></div></details>`);
  byId('main').append(element);
  const details = /** @type {HTMLDetailsElement} */ (element.firstElementChild);
  details.addEventListener('toggle', () => redraw());
  return /** @type {HTMLElement} */ (details.lastElementChild);
}

/** Opens the section that this is or is in. @param {Element | null} element */
export function unfold(element) {
  const details = element?.closest('section')?.querySelector('details');
  if (details) details.open = true;
}

/** @param {Element} parent @param {string} tag @param {string} [className] */
export function add(parent, tag, className = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  parent.append(element);
  return element;
}

/**
 * A column of a table. Columns with a key can be sorted by.
 * @template R
 * @typedef {object} Column
 * @property {string | Html} title
 * @property {(row: R) => unknown} cell
 * @property {boolean} [number]
 * @property {(row: R) => number | string} [key]
 * @property {boolean} [head] Names the row
 * @property {string} [style]
 * @property {string} [className]
 */

/**
 * Fills a table; heads of columns with a key sort it.
 * @template R
 * @param {HTMLElement} table
 * @param {string} caption
 * @param {Column<R>[]} columns
 * @param {R[]} rows
 * @param {{ mark?: (row: R) => boolean, sort?: [number, number], limit?: number,
 *   done?: () => void }} [options] `limit`: rows that are shown at first when there are many more
 */
export function fillTable(table, caption, columns, rows, options = {}) {
  scrollable(table);
  let sort = options.sort;
  let all = false;
  const draw = () => {
    const sorted = sort ? sortedBy(rows, columns[sort[0]], sort[1]) : rows;
    const limit = options.limit ?? Infinity;
    const folded = all || sorted.length <= limit + 8 ? 0 : sorted.length - limit;
    const line = (/** @type {R} */ row) => tableRow(columns, row, options.mark?.(row) ?? false);
    // What is marked is what the page speaks of: some of it is shown in any case.
    const behind = sorted.slice(sorted.length - folded).filter((row) => options.mark?.(row)).slice(0, MOST_MARKED);
    const shown = [...sorted.slice(0, sorted.length - folded), ...behind];
    const body = [...shown.map(line), folded > 0 && html`<tr class="fold"><td
      colspan="${columns.length}"><button type="button">Show ${folded - behind.length} more</button></td></tr>`];
    fill(table, html`<caption class="sr">${caption}</caption><thead><tr>${columns.map((column, at) =>
      tableHead(column, at, sort))}</tr></thead><tbody>${body}</tbody>`);
    table.querySelector('.fold button')?.addEventListener('click', () => {
      all = true;
      draw();
    });
    table.querySelectorAll('thead button').forEach((button) => button.addEventListener('click', () => {
      const at = Number(/** @type {HTMLElement} */ (button).dataset.column);
      sort = [at, sort?.[0] === at ? -sort[1] : columns[at].number ? -1 : 1];
      draw();
      /** @type {HTMLElement | null} */ (table.querySelector(`[data-column="${at}"]`))?.focus();
    }));
    options.done?.();
  };
  draw();
}

/** A table that is wider than the page scrolls in a box of its own. @param {HTMLElement} table */
function scrollable(table) {
  if (table.closest('.wide, .scrolls')) return;
  const box = document.createElement('div');
  box.className = 'wide';
  table.replaceWith(box);
  box.append(table);
}

/** @template R @param {R[]} rows @param {Column<R>} column @param {number} direction */
function sortedBy(rows, column, direction) {
  const { key } = column;
  if (!key) return rows;
  return [...rows].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    return (left < right ? -1 : left > right ? 1 : 0) * direction;
  });
}

/** @template R @param {Column<R>} column @param {number} at @param {[number, number] | undefined} sort */
function tableHead(column, at, sort) {
  const sorted = sort && sort[0] === at && (sort[1] < 0 ? 'descending' : 'ascending');
  const title = column.key ? html`<button type="button" data-column="${at}">${column.title}</button>` : column.title;
  return html`<th scope="col" class="${column.number ? 'n' : ''}" style="${column.style ?? ''}"${sorted ?
    html` aria-sort="${sorted}"` : ''}>${title}</th>`;
}

/** @template R @param {Column<R>[]} columns @param {R} row @param {boolean} marked */
function tableRow(columns, row, marked) {
  const cell = (/** @type {Column<R>} */ column) => {
    const name = [column.number ? 'n' : '', column.className ?? ''].join(' ').trim();
    return column.head ? html`<th scope="row" class="${name}">${column.cell(row)}</th>` :
      html`<td class="${name}">${column.cell(row)}</td>`;
  };
  return html`<tr class="${marked ? 'mark' : ''}">${columns.map(cell)}</tr>`;
}

/** @param {Html} content @param {MouseEvent} event @param {number} [right] Where it must end */
export function showTip(content, event, right = innerWidth) {
  const tip = byId('tip');
  fill(tip, content);
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const x = event.clientX + 16 + width > right ? event.clientX - width - 12 : event.clientX + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
}

export function hideTip() {
  byId('tip').hidden = true;
}

/**
 * Gives a canvas its size in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function sizeCanvas(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  if (!context) throw new Error('the browser has no canvas');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/** A colour or font of the page's style. @param {string} name */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Between two colours `#rrggbb`. @param {string} from @param {string} to @param {number} share */
export function mix(from, to, share) {
  const parts = [1, 3, 5].map((at) => {
    const [a, b] = [from, to].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * share).toString(16).padStart(2, '0');
  });
  return `#${parts.join('')}`;
}

const COLOURED = ['AllReduce', 'AllGather', 'ReduceScatter', 'Send', 'Recv', 'Broadcast'];

/** The name of a region of NCCL's without what all of them begin with. @param {string} name */
export const plainName = (name) => name.replace(/^(nccl|NCCL )/, '');

/** The style's colour of an NCCL function. @param {string} name */
export function colourName(name) {
  const short = plainName(name).replace(/ .*$/, '');
  return `--f-${COLOURED.includes(short) ? short : 'other'}`;
}

/** @param {string} name */
export const dot = (name) => html`<i class="dot" style="background:var(${colourName(name)})"></i>`;

/**
 * Buttons of which one is pressed.
 * @param {HTMLElement} element
 * @param {[string, string][]} choices Value and label
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function segments(element, choices, chosen, choose) {
  fill(element, html`${choices.map(([value, label]) =>
    html`<button type="button" data-value="${value}" aria-pressed="${value === chosen}">${label}</button>`)}`);
  element.onclick = (event) => {
    const value = /** @type {HTMLElement} */ (event.target).dataset.value;
    if (value === undefined) return;
    segments(element, choices, value, choose);
    choose(value);
  };
}

/** What draws; false where there is nothing to draw on any more. */
let redraws = /** @type {(() => unknown)[]} */ ([]);

/** Draws now, and again when colours or the width of the page change. @param {() => unknown} draw */
export function drawn(draw) {
  redraws.push(draw);
  draw();
}

export function redraw() {
  redraws = redraws.filter((draw) => draw() !== false);
}

/**
 * The contents beside the page, which follow the scrolling.
 * @param {[string, string, unknown?][]} sections Id, title, note
 */
export function contents(sections) {
  fill(byId('contents'), html`${sections.map(([id, title, note]) =>
    html`<li><a href="#${id}"><span>${title}</span>${note}</a></li>`)}`);
  const mark = (/** @type {string} */ id) => document.querySelectorAll('nav a').forEach((link) => {
    if (link.getAttribute('href') === `#${id}`) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  });
  const observer = new IntersectionObserver((changes) => {
    for (const change of changes) if (change.isIntersecting) mark(change.target.id);
  }, { rootMargin: '-8% 0px -82% 0px' });
  sections.forEach(([id]) => observer.observe(byId(id)));
  mark('verdict');
}
