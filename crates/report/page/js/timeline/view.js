// The view: which time and which rows are on the canvas, and where.

/** @typedef {import('#page/timeline/store').Item} Item */
/** @typedef {import('#page/timeline/rows').Row} Row */

/** Width of the labels, height of the time axis. */
export const GUTTER = 132;
export const AXIS = 34;

/**
 * @typedef {object} View
 * @property {number} begin
 * @property {number} end
 * @property {number} width
 * @property {number} height
 * @property {number} scroll
 * @property {Row[]} rows
 * @property {Item | null} selected
 * @property {import('#page/timeline/related').Related | null} related
 * @property {import('#page/timeline/search').Matcher | null} matches
 * @property {number | null} worst The row that the verdict names
 * @property {{ begin: number, end: number } | null} span The time that is measured
 */

/** @param {View} view @param {number} ns */
export const xOf = (view, ns) =>
  GUTTER + ((ns - view.begin) / (view.end - view.begin)) * (view.width - GUTTER);

/** @param {View} view @param {number} x */
export const timeAt = (view, x) =>
  view.begin + ((x - GUTTER) / (view.width - GUTTER)) * (view.end - view.begin);

/** @param {View} view @param {Row} row */
export const topOf = (view, row) => row.y - view.scroll + AXIS;

/** Times of the axis: at most one for each 100 pixels. @param {View} view */
export function ticks({ begin, end, width }) {
  const least = ((end - begin) / Math.max(1, width - GUTTER)) * 100;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= least) ?? least;
  const found = [];
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) found.push(at);
  return found;
}
