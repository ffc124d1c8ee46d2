// Plots by uPlot in the colours of the page.

import { drawn, token } from '#page/dom';

/**
 * @typedef {object} Series
 * @property {string} colour A colour of the style
 * @property {number} [width] Of the line; 0: none
 * @property {number[]} [dash]
 * @property {number} [points] Diameter of its points; none: a line only
 * @property {boolean} [hollow]
 */

/**
 * @typedef {object} Plot
 * @property {(number | null)[][]} data x, then y of each series
 * @property {Series[]} series
 * @property {number} height
 * @property {string} [x] Unit
 * @property {boolean} [logarithmic] Both axes
 * @property {(value: number) => string} [xText]
 * @property {(value: number) => string} [yText]
 * @property {[number, number]} [band] Fills between these series
 * @property {[number, number]} [yRange]
 * @property {number} [mark] A vertical line
 * @property {[number, number]} [xRange]
 * @property {() => { left: number, width: number }} [area] Where the element has the plotting area
 */

/** Width of the axis on the left. */
const Y_AXIS = 50;
/** Room for half of the last label. */
export const RIGHT = 16;

/** @param {HTMLElement} element @param {Plot} what */
export function plot(element, what) {
  /** @type {any} */
  let made = null;
  drawn(() => {
    made?.destroy();
    if (!element.isConnected) return false;
    const area = what.area?.();
    element.style.marginLeft = area ? `${area.left - Y_AXIS}px` : '';
    const width = area ? area.width + Y_AXIS + RIGHT : Math.floor(element.clientWidth);
    made = width > 40 ? new uPlot(options(what, width), what.data, element) : null;
    return true;
  });
}

/** @param {Plot} what @param {number} width */
function options(what, width) {
  const ink = token('--ink-2');
  const font = `10.5px ${token('--sans')}`;
  const axis = { stroke: ink, font, grid: { stroke: token('--line'), width: 1 }, ticks: { show: false } };
  const labels = (/** @type {((value: number) => string) | undefined} */ text) =>
    (text ? { values: (/** @type {any} */ _, /** @type {(number | null)[]} */ values) =>
      values.map((value) => (value === null ? '' : text(value))) } : {});
  const distribution = what.logarithmic ? { distr: 3 } : {};
  return {
    width, height: what.height, legend: { show: false }, padding: [8, RIGHT, 0, 0],
    cursor: { show: false },
    scales: {
      x: { time: false, ...(what.xRange ? { range: what.xRange } : {}), ...distribution,
        ...(what.logarithmic ? { log: 2 } : {}) },
      y: { ...distribution, ...(what.yRange ? { range: what.yRange } : {}) },
    },
    axes: [{ ...axis, size: 24, gap: 2, ...labels(what.xText), ...(what.logarithmic ? { filter: everyOther } : {}) },
      { ...axis, size: Y_AXIS, gap: 4, ...labels(what.yText) }],
    series: [{}, ...what.series.map(seriesOptions)],
    ...(what.band ? { bands: [{ series: [what.band[1], what.band[0]], fill: `${token('--hatch')}55` }] } : {}),
    hooks: what.mark === undefined ? {} : { draw: [(/** @type {any} */ u) => markLine(u, Number(what.mark))] },
  };
}

/** On a logarithmic axis a label for each power of four is enough. @param {any} _ @param {number[]} splits */
const everyOther = (_, splits) => splits.map((value) => (Math.round(Math.log2(value)) % 2 === 0 ? value : null));

/** @param {Series} one */
function seriesOptions({ colour, width = 1.5, dash, points, hollow }) {
  const stroke = token(colour);
  const shown = points === undefined ? { show: false } :
    { show: true, size: points, width: hollow ? 1 : 0, stroke, fill: hollow ? token('--bg') : `${stroke}66` };
  return { stroke, width, dash, points: shown, spanGaps: true,
    ...(width === 0 && points !== undefined ? { paths: () => null } : {}) };
}

/** @param {any} u @param {number} at */
function markLine(u, at) {
  const x = u.valToPos(at, 'x', true);
  u.ctx.save();
  u.ctx.strokeStyle = token('--ink');
  u.ctx.setLineDash([2, 3]);
  u.ctx.beginPath();
  u.ctx.moveTo(x, u.bbox.top);
  u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
  u.ctx.stroke();
  u.ctx.restore();
}
