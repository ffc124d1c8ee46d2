// Colours of the timeline, read from the style once for each theme.

import { colourName, mix, plainName, token } from '#page/dom';

const NAMES = ['bg', 'raise', 'line', 'line-2', 'ink', 'ink-2', 'ink-3', 'accent', 'hang', 'hang-soft', 'hatch',
  'hatch-bg', 'kernel',
  'launch', 'seq'];
const FUNCTION = /AllReduce|AllGather|ReduceScatter|SendRecv|Send|Recv|Broadcast|Reduce|AlltoAll|Gather|Scatter/;

/** The NCCL function that a region's name speaks of. @param {string} name */
export function functionIn(name) {
  const found = FUNCTION.exec(name);
  return found && /nccl|^net|^ib|^socket/i.test(name) ? found[0] : null;
}

/** Regions that take the colour of their operation, or that of a step. */
const NO_COLOUR = /^(net|ib|socket)|^(send|receive) step$/;
/** Regions of a thread that works on the network. */
const PROXY = /^Proxy|^NCCL network$/;
const isNccl = (/** @type {string} */ name) => /^nccl/i.test(name) && !PROXY.test(name);

/**
 * What the colours of a timeline stand for, those that its events have.
 * @param {import('../../model').Timeline} timeline
 * @returns {{ colour: string, label: string }[]} Values of CSS
 */
export function legend({ names, ranges, locations }) {
  const kinds = new Set(locations.map(({ kind }) => kind));
  const own = names.filter((name, at) => name !== LAUNCH && !NO_COLOUR.test(name) && !ranges.includes(at));
  const functions = /** @type {Map<string, Set<string>>} */ (new Map());
  for (const name of own) {
    const known = functionIn(name) ?? (isNccl(name) ? plainName(name) : null);
    if (known === null) continue;
    const colour = `var(${functionIn(name) ? colourName(known) : '--f-other'})`;
    functions.set(colour, (functions.get(colour) ?? new Set()).add(known));
  }
  const grey = own.filter((name) => functionIn(name) === null && !isNccl(name));
  const isProxy = (/** @type {string} */ name) => PROXY.test(name);
  const rest = kinds.has('kernel') ? 'other kernels' : 'other regions';
  const others = [!grey.every(isProxy) && rest, grey.some(isProxy) && 'proxy thread'].filter(Boolean);
  const found = [...functions].map(([colour, all]) => ({ colour, label: some([...all]) }));
  if (others.length > 0) found.push({ colour: 'var(--kernel)', label: others.join(', ') });
  if (names.includes(LAUNCH)) found.push({ colour: 'var(--launch)', label: 'launch' });
  if (kinds.has('step')) {
    found.push({ colour: 'var(--seq)', label: 'step on the network' }, { colour: FLAT, label: 'step that waits' });
  }
  return found;
}

export const LAUNCH = 'NCCL launch';
const FLAT = 'color-mix(in srgb, var(--hatch) 55%, var(--hatch-bg))';

/** @param {string[]} names */
const some = (names) => `${names.slice(0, 4).join(', ')}${names.length > 4 ? ', …' : ''}`;

export class Palette {
  /** Whether a transfer or channel was drawn whose operation is not loaded or not there. */
  hasOrphans = false;

  /** @param {string[]} names Of regions */
  constructor(names) {
    this.colours = /** @type {Record<string, string>} */ (
      Object.fromEntries(NAMES.map((name) => [name, token(`--${name}`)])));
    this.sans = token('--sans');
    this.flat = mix(this.colours['hatch-bg'], this.colours.hatch, 0.55);
    const edge = parseFloat(token('--edge')) / 100;
    this.regions = names.map((name) => {
      const known = functionIn(name);
      const fill = known ? token(colourName(known)) : isNccl(name) ? token('--f-other') : this.colours.kernel;
      return { fill, edge: mix(fill, '#000000', edge), text: isLight(fill) ? '#101114' : '#ffffff',
        label: plainName(name) };
    });
    this.hatch = hatch(this.colours.hatch, this.colours['hatch-bg']);
  }

  /** @param {string} name */
  get(name) {
    return this.colours[name];
  }
}

/** @param {string} colour */
function isLight(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18;
}

/** @param {string} line @param {string} ground */
function hatch(line, ground) {
  const scale = devicePixelRatio || 1;
  const size = Math.round(5 * scale);
  const tile = document.createElement('canvas');
  tile.width = size;
  tile.height = size;
  const context = tile.getContext('2d');
  if (!context) return ground;
  context.fillStyle = ground;
  context.fillRect(0, 0, size, size);
  context.strokeStyle = line;
  context.lineWidth = 1.1 * scale;
  context.beginPath();
  for (const shift of [-size, 0, size]) {
    context.moveTo(shift, size);
    context.lineTo(shift + size, 0);
  }
  context.stroke();
  const pattern = context.createPattern(tile, 'repeat');
  pattern?.setTransform(new DOMMatrix().scale(1 / scale));
  return pattern ?? ground;
}
