// Numbers, times and sizes as people read them.

const THIN = '\u202f';
const KIB = 1024;
const MIB = KIB * KIB;
const GIB = MIB * KIB;

/** What says that there is no number. */
export const NONE = '–';

/** @param {string} text */
export const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** The directory of a job, as a command takes it. @param {string} anchor */
export const directoryOf = (anchor) => anchor.replace(/\/?[^/]*\.otf2$/, '') || '.';

/** An operation's name with NCCL's number of it. @param {string} name @param {number | null} sequence */
export const numbered = (name, sequence) => (sequence === null || sequence < 0 ? name : `${name} seq ${sequence}`);

/** An operation as the function that calls it is named. @param {string} name */
export const operationName = (name) => name.replace(/^NCCL (?=[A-Z]\w*$)/, 'nccl');

/** Names of ranges as `nvtx.ranges` has them. */
export const pathText = (/** @type {string[]} */ names) => names.join(' > ');

/** A long text without its middle. @param {string} text */
export const shortened = (text) => (text.length > 160 ? `${text.slice(0, 80)}…${text.slice(-80)}` : text);

/**
 * With thin spaces at thousands and a true minus.
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export function number(value, digits = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const text = value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return text.replace(/,/g, THIN).replace(/^-(?=[0.]*$)/, '').replace('-', '−');
}

/** @param {number | null} share @param {number} [digits] */
export const percent = (share, digits = 0) => (share === null ? NONE : number(share * 100, digits) + THIN + '%');

/** GB/s of bytes per second; nothing was moved at a rate of 0. @param {number | null} rate */
export function gigabytes(rate) {
  if (!rate) return NONE;
  return number(rate / 1e9, rate >= 1e9 ? 1 : rate >= 1e7 ? 3 : Math.ceil(10 - Math.log10(rate)));
}

/** A duration with its unit. @param {number | null} ns */
export function duration(ns) {
  if (ns === null || !Number.isFinite(ns)) return NONE;
  if (ns === 0) return '0';
  const size = Math.abs(ns);
  if (size < 1e3) return number(ns) + THIN + 'ns';
  if (size < 1e6) return number(ns / 1e3, size < 1e5 ? 1 : 0) + THIN + 'µs';
  if (size < 1e9) return number(ns / 1e6, 2) + THIN + 'ms';
  if (size < 6e11) return number(ns / 1e9, 3) + THIN + 's';
  if (size >= 3.6e12) return number(ns / 3.6e12, 2) + THIN + 'h';
  const seconds = Math.floor(size / 1e9);
  return `${ns < 0 ? '−' : ''}${Math.floor(seconds / 60)}${THIN}min ${seconds % 60}${THIN}s`;
}

/** A size with its unit. @param {number | null} size */
export function bytes(size) {
  if (size === null) return NONE;
  for (const [unit, name] of /** @type {[number, string][]} */ ([[GIB, 'GiB'], [MIB, 'MiB'], [KIB, 'KiB']])) {
    if (size >= unit) {
      const value = size / unit;
      return number(value, Number.isInteger(value) || value >= 100 ? 0 : 1) + THIN + name;
    }
  }
  return number(size) + THIN + 'B';
}

/** Sizes from … to. @param {number} least @param {number} most */
export const sizes = (least, most) => (least === most ? bytes(least) : `${bytes(least)} … ${bytes(most)}`);

/**
 * A moment of the run in the unit that a duration of this length has, as fine as steps of `step` need.
 * @param {number} ns
 * @param {number} whole Length of the run, or of what is shown of it
 * @param {number} step
 */
export function moment(ns, whole, step) {
  const [size, unit] = whole >= 1e9 ? [1e9, 's'] : whole >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
  return number(ns / size, Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9))) + THIN + unit;
}

/** Date and time of ns since 1970, in UTC. @param {number} ns */
export function date(ns) {
  const text = new Date(ns / 1e6).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}

/** The value below which a share of the sorted values is. @param {ArrayLike<number>} sorted @param {number} share */
export function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))))];
}

/** @param {Iterable<number>} values */
export const median = (values) => quantile(Float64Array.from(values).sort(), 0.5);

/**
 * What nccl-tests multiply algbw by to get busbw; none for what has no busbw.
 * @param {string} name
 * @param {number} ranks
 */
export function busFactor(name, ranks) {
  if (/AllReduce/.test(name)) return (2 * (ranks - 1)) / ranks;
  if (/AllGather|ReduceScatter|AlltoAll|Gather|Scatter/.test(name)) return (ranks - 1) / ranks;
  return /Broadcast|Reduce/.test(name) ? 1 : null;
}

/**
 * Bytes that nccl-tests divide by the time, of what a rank gives.
 * @param {string} name
 * @param {number} size
 * @param {number} ranks
 */
export const busBytes = (name, size, ranks) => (/AllGather|Scatter|AlltoAll|Gather/.test(name) ? size * ranks : size);
