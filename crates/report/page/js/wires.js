// Hosts with their GPUs and network interfaces, and the way of a channel through them.

import { add, byId, fill, fillTable, section, segments } from '#page/dom';
import { bytes, duration, gigabytes, NONE, number, percent } from '#page/format';
import { html, prose } from '#page/html';

/** @typedef {import('../model').Model} Model */
/** @typedef {import('../model').Report} Report */
/** @typedef {import('../model').Topology} Topology */
/** @typedef {import('../model').Graph} Graph */
/** @typedef {import('../model').Nic} Nic */

/** @typedef {{ x: number, y: number }} Point */

/** Hosts that are drawn. */
const MOST_HOSTS = 8;
const MOST_NICS = 24;
/** An interface is marked if its steps take this many times as long as those of others. */
const SLOW = 1.3;
/** One with fewer steps is not judged. */
const LEAST_STEPS = 20;
/** Sizes of the drawing. */
const [SLOT, GPU_Y, NIC_Y, HOST_HEIGHT, GAP, BOX] = [76, 34, 92, 128, 22, 22];

/** @param {Model} model */
export function wires({ report }) {
  const { topology, nics } = report;
  if (!topology || topology.hosts.length === 0) return;
  const culprit = report.causes.find(({ kind }) => kind === 'slow-nic');
  const slowest = nics.filter(({ steps }) => steps >= LEAST_STEPS).reduce((most, nic) =>
    Math.max(most, nic.slowdown ?? 0), 0);
  const element = section('wires', 'Hosts and links', 'nccl-otf2 stats --by nic', html`GPUs and network interfaces of
    each host as NCCL sees them, and the way of a channel. <b>${culprit ? prose(culprit.sentence) : slowest > 0 ?
    'No network interface is slow as a whole.' : 'Interfaces were not compared.'}</b>`,
  { open: culprit !== undefined });
  new Drawing(element, report, topology).show();
  table(element, report, topology);
}

/** @param {HTMLElement} element @param {Report} report @param {Topology} topology */
function table(element, { nics, causes }, { hosts, bytes_elsewhere: elsewhere, unused }) {
  const isNamed = causes.some(({ kind }) => kind === 'slow-nic');
  if (nics.length > 0) {
    fillTable(add(element, 'table', 'tight'), 'Network interfaces', [
      { title: 'host', head: true, key: (nic) => hosts[nic.host].name, cell: (nic) => hosts[nic.host].name },
      { title: 'interface', key: (nic) => nic.name, cell: (nic) => nic.name },
      { title: 'sent', number: true, key: (nic) => nic.sent_bytes ?? -1, cell: (nic) => size(nic.sent_bytes) },
      { title: 'received', number: true, key: (nic) => nic.received_bytes ?? -1,
        cell: (nic) => size(nic.received_bytes) },
      { title: 'busy', number: true, key: (nic) => nic.busy_ns ?? -1, cell: (nic) => duration(nic.busy_ns) },
      { title: html`rate while<br>busy, GB/s`, number: true, key: (nic) => nic.rate ?? -1,
        cell: (nic) => gigabytes(nic.rate) },
      { title: html`of its<br>speed`, number: true, key: (nic) => nic.share ?? -1, cell: (nic) => percent(nic.share) },
      { title: html`slowdown,<br>×`, number: true, key: (nic) => nic.slowdown ?? -1,
        cell: (nic) => number(nic.slowdown, 2) },
    ], nics, { sort: [7, -1], limit: MOST_NICS,
      mark: (nic) => isNamed && isSlow(nic) });
  }
  const remarks = [elsewhere > 0 && `${bytes(elsewhere)} more were sent over interfaces that the graphs do not name.`,
    unused.length > 0 && `Dumps that could not be used: ${unused.join('; ')}.`];
  fill(add(element, 'p', 'small u'), html`${remarks.filter((remark) => remark !== false).join(' ')}`);
}

const size = (/** @type {number | null} */ value) => (value === null ? NONE : bytes(value));

/** @param {Nic} nic */
const isSlow = (nic) => nic.steps >= LEAST_STEPS && (nic.slowdown ?? 0) >= SLOW;

class Drawing {
  /** @param {HTMLElement} element @param {Report} report @param {Topology} topology */
  constructor(element, report, topology) {
    this.report = report;
    this.topology = topology;
    this.kinds = [...new Set(topology.graphs.map(({ kind }) => kind))];
    this.kind = this.kinds.includes('RING') ? 'RING' : this.kinds[0];
    this.channel = report.causes.find(({ kind }) => kind === 'slow-channel')?.link?.channel ?? 0;
    this.late = new Set(report.causes.filter(({ kind }) => kind === 'late-rank').map(({ rank }) => rank));
    this.element = add(element, 'figure');
  }

  show() {
    fill(this.element, html`<div class="tools"><span class="seg" id="wires-kind" role="group"
      aria-label="Which graph is drawn"></span><label class="small">channel <select id="wires-channel"></select></label>
      </div><div class="wide" id="wires-drawing"></div><figcaption class="u" id="wires-say"></figcaption>`);
    const select = /** @type {HTMLSelectElement} */ (byId('wires-channel'));
    const kinds = this.kinds.length < 2 ? [] :
      /** @type {[string, string][]} */ (this.kinds.map((kind) => [kind, kind.toLowerCase()]));
    segments(byId('wires-kind'), kinds, this.kind, (kind) => {
      this.kind = kind;
      this.draw(select);
    });
    select.onchange = () => {
      this.channel = Number(select.value);
      this.draw(select);
    };
    this.draw(select);
  }

  /** The graphs of the chosen kind, in the order of hosts. @returns {Graph[]} */
  graphs() {
    return this.topology.graphs.filter(({ kind }) => kind === this.kind);
  }

  /** The hosts that are drawn: those with something slow first. @returns {number[]} */
  hosts() {
    const { hosts } = this.topology;
    const weight = (/** @type {number} */ host) => Number(this.report.nics.some((nic) => nic.host === host &&
      isSlow(nic)) || hosts[host].gpus.some(({ rank }) => rank !== null && this.late.has(rank)));
    const all = hosts.map((_, host) => host).sort((a, b) => weight(b) - weight(a) || a - b);
    return all.slice(0, MOST_HOSTS).sort((a, b) => a - b);
  }

  /** @param {HTMLSelectElement} select */
  draw(select) {
    const graphs = this.graphs();
    const count = Math.max(0, ...graphs.map(({ channels }) => channels.length));
    this.channel = count > 0 ? this.channel % count : 0;
    /** @type {HTMLElement} */ (select.parentElement).hidden = count < 2;
    fill(select, html`${Array.from({ length: count }, (_, at) => html`<option${at === this.channel ?
      html` selected` : ''}>${at}</option>`)}`);
    const shown = this.hosts();
    const places = shown.map((host, row) => this.place(host, row));
    const width = Math.max(...places.map((place) => place.width));
    const height = shown.length * (HOST_HEIGHT + GAP);
    fill(byId('wires-drawing'), html`<svg width="${width + 40}" height="${height}" role="img"
      aria-label="Hosts, GPUs and network interfaces, with channel ${this.channel}">
      ${places.map((place) => place.picture)}${this.ways(shown, places)}</svg>`);
    const graph = graphs[0];
    const left = this.topology.hosts.length - shown.length;
    const channels = `${count} channel${count === 1 ? '' : 's'}`;
    const known = this.topology.communicators;
    const largest = known > 1 ? `, the largest of ${known} with graphs` : '';
    fill(byId('wires-say'), html`<span>${graph ? `${this.report.communicators[graph.communicator]?.name}${largest}: ` +
      `${channels} in NCCL’s graph, ${gigabytes(graph.speed_intra)} GB/s each over ${graph.type_intra ?? NONE} ` +
      `between GPUs, ` +
      `${gigabytes(graph.speed_inter)} GB/s over ${graph.type_inter ?? NONE} to the network` :
      'NCCL’s graphs are not known'}${left > 0 && `; ${left} more hosts`}</span>
      <span>marked: what was found late or slow</span>`);
  }

  /**
   * Where the devices of a host are, and how they look. An interface is below the first GPU on the same bridge.
   * @param {number} host @param {number} row
   */
  place(host, row) {
    const top = row * (HOST_HEIGHT + GAP);
    const { name, gpus } = this.topology.hosts[host];
    const gpuAt = gpus.map((_, at) => ({ x: 24 + SLOT * at + SLOT / 2, y: top + GPU_Y }));
    const nics = this.report.nics.map((nic, at) => ({ nic, at })).filter(({ nic }) => nic.host === host);
    /** @type {Map<number, Point>} */
    const nicAt = new Map();
    const taken = new Set();
    for (const { nic, at } of nics) {
      const near = gpus.findIndex(({ path }, slot) => path === nic.path && !taken.has(slot));
      const free = [...nics.keys(), ...gpus.keys(), nics.length + gpus.length].find((slot) => !taken.has(slot)) ?? 0;
      const slot = near >= 0 ? near : free;
      taken.add(slot);
      nicAt.set(at, { x: 24 + SLOT * slot + SLOT / 2, y: top + NIC_Y });
    }
    const width = 24 + SLOT * Math.max(gpus.length, ...[...taken].map((slot) => slot + 1), 1);
    const rankName = (/** @type {number | null} */ rank) => (rank === null ? 'GPU' : this.report.ranks[rank].name);
    const picture = html`<text x="8" y="${top + 12}">${name}</text><rect x="4" y="${top + 17}" width="${width}"
      height="${HOST_HEIGHT - 20}" rx="4" fill="none" stroke="var(--line-2)"/>
      ${gpus.map(({ rank, pci }, at) => box(gpuAt[at], rankName(rank), rank !== null && this.late.has(rank),
        `${pci}${rank !== null && this.late.has(rank) ? ', comes late' : ''}`))}
      ${nics.map(({ nic, at }) => box(/** @type {Point} */ (nicAt.get(at)), nic.name, isSlow(nic),
        `${nic.pci} ${gigabytes(nic.rate)} GB/s${nic.share === null ? '' : `, ${percent(nic.share)} of its speed`}`))}`;
    const rankAt = new Map(gpus.map(({ rank }, at) => [rank, gpuAt[at]]));
    return { width, picture, nicAt, rankAt };
  }

  /** The way of the channel. @param {number[]} shown @param {ReturnType<Drawing['place']>[]} places */
  ways(shown, places) {
    const graphs = this.graphs();
    const slow = (/** @type {number | null} */ from, /** @type {number | null} */ to) => this.report.causes.some(
      ({ kind, link }) => (kind === 'slow-pair' || (kind === 'slow-connection' && link?.channel === this.channel)) &&
        link?.from === from && link?.to === to);
    const isSlowChannel = this.report.causes.some(({ kind, link }) => kind === 'slow-channel' &&
      link?.channel === this.channel);
    const right = Math.max(...places.map(({ width }) => width)) + 14;
    // GPUs that do not reach each other have graphs of their own, whose order is not known.
    const isSplit = shown.some((host) => graphs.filter((graph) => graph.host === host).length > 1);
    const lines = shown.flatMap((host, row) => graphs.filter((graph) => graph.host === host).map((graph) => {
      const channel = graph.channels[this.channel];
      if (!channel) return [];
      const points = channel.ranks.map((rank) => places[row].rankAt.get(rank));
      const inside = points.slice(1).map((point, at) =>
        line(points[at], point, slow(channel.ranks[at], channel.ranks[at + 1]) || isSlowChannel));
      const nicOf = (/** @type {number | null} */ nic) => (nic === null ? undefined : places[row].nicAt.get(nic));
      const next = (row + 1) % shown.length;
      const after = graphs.find((other) => other.host === shown[next])?.channels[this.channel];
      const over = after && after.nic_in !== null ? places[next].nicAt.get(after.nic_in) : undefined;
      const isOver = this.kind === 'RING' && shown.length > 1 && !isSplit &&
        shown.length === this.topology.hosts.length;
      return [...inside, line(nicOf(channel.nic_in), points[0], isSlowChannel),
        line(points[points.length - 1], nicOf(channel.nic_out), isSlowChannel),
        isOver && around(nicOf(channel.nic_out), over, right, isSlowChannel ||
          slow(channel.ranks[channel.ranks.length - 1], after?.ranks[0] ?? null))];
    }));
    return html`${lines}`;
  }
}

/** @param {Point} at @param {string} name @param {boolean} isHot @param {string} title */
function box({ x, y }, name, isHot, title) {
  const width = SLOT - 8;
  return html`<g><title>${name} ${title}</title><rect x="${x - width / 2}" y="${y - BOX / 2}" width="${width}"
    height="${BOX}" rx="3" fill="var(${isHot ? '--accent-soft' : '--raise'})"
    stroke="var(${isHot ? '--accent' : '--line-2'})"/><text x="${x}" y="${y + 4}" text-anchor="middle">${
    name.length > 10 ? `${name.slice(0, 9)}…` : name}</text></g>`;
}

/** A line below interfaces and beside hosts. @param {Point | undefined} from @param {Point | undefined} to
 * @param {number} right @param {boolean} isHot */
function around(from, to, right, isHot) {
  if (!from || !to) return false;
  const [bottom, down] = [from.y + BOX / 2, 14];
  return stroke(`M${from.x} ${bottom} v${down} H${right} V${to.y + BOX / 2 + down} H${to.x} v${-down}`, isHot);
}

/** A line between the edges of two boxes. @param {Point | undefined} from @param {Point | undefined} to
 * @param {boolean} isHot */
function line(from, to, isHot) {
  if (!from || !to) return false;
  const isRow = from.y === to.y;
  const down = to.y > from.y ? 1 : -1;
  const [y1, y2] = isRow ? [from.y + BOX / 2, to.y + BOX / 2] : [from.y + (BOX / 2) * down, to.y - (BOX / 2) * down];
  const bend = isRow ? 8 + Math.abs(to.x - from.x) / 12 : 0;
  const middle = (y1 + y2) / 2;
  const curve = isRow ? `C${from.x} ${y1 + bend} ${to.x} ${y2 + bend}` : `C${from.x} ${middle} ${to.x} ${middle}`;
  return stroke(`M${from.x} ${y1} ${curve} ${to.x} ${y2}`, isHot);
}

const stroke = (/** @type {string} */ path, /** @type {boolean} */ isHot) => html`<path d="${path}" fill="none"
  stroke="var(${isHot ? '--accent' : '--seq'})" stroke-width="${isHot ? 2 : 1.2}" opacity="0.85"/>`;
