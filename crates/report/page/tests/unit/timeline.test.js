import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';

import { decodeChunk, inflate, signed, Varints } from '#page/encoding';
import { measure, measured } from '#page/timeline/measure';
import { momentOf, sentenceOf } from '#page/timeline/moment';
import { facts } from '#page/timeline/panel';
import { beginOf, endOf, fullName, locationOf, nameOf, related } from '#page/timeline/related';
import { layout, rowAt } from '#page/timeline/rows';
import { matcher } from '#page/timeline/search';
import { Store } from '#page/timeline/store';
import { encodeChunk, hangReport, job } from '../fixture.js';

const given = job({ ranks: 16, steps: 40, perChunk: 500 });

async function opened() {
  const { model, blobs } = given;
  const text = (/** @type {string} */ id) => {
    const bytes = blobs.get(id);
    return bytes ? deflateSync(bytes).toString('base64') : null;
  };
  const store = new Store(structuredClone(model.timeline), text, () => {});
  await store.open();
  return store;
}

test('numbers and texts come back as they were written', async () => {
  assert.equal(new Varints(Uint8Array.from([0xac, 2])).next(), 300);
  assert.throws(() => new Varints(Uint8Array.from([0x80])).next(), /ends early/);
  assert.deepEqual([0, 1, 2, 3].map(signed), [0, -1, 1, -2]);
  const bytes = await inflate(deflateSync(Uint8Array.from([1, 2, 3])).toString('base64'));
  assert.deepEqual([...bytes], [1, 2, 3]);
});

test('a chunk has the events that it was made of', () => {
  const event = { location: 2, begin: 5_000_000_000, end: 5_000_000_100, name: 3, waiting: 40, instance: 7,
    attributes: 1, parent: 102, sequence: 0 };
  const later = { ...event, begin: event.begin + 50, waiting: -1, instance: -1, attributes: -1, parent: -1,
    sequence: -1 };
  const events = decodeChunk(encodeChunk([event, later], 100, 4_999_999_999), 100, 4_999_999_999);
  assert.deepEqual(events.runs.get(2), [0, 2]);
  assert.deepEqual([...events.begin], [event.begin, later.begin]);
  assert.deepEqual([...events.parent], [102, -1]);
  assert.deepEqual([...events.waiting], [40, -1]);
  assert.deepEqual([...events.sequence], [0, -1]);
});

test('a view loads the chunks that reach into it, and gives its events in order', async () => {
  const store = await opened();
  const begin = store.timeline.chunks[1].begin_ns;
  await store.need(begin, begin + 1);
  assert.notEqual(store.chunks[1], undefined);
  assert.equal(store.chunks.at(-1), undefined);
  await store.needAll();
  /** @type {number[]} */
  const begins = [];
  store.each(0, 0, store.timeline.duration_ns, (events, at) => begins.push(events.begin[at]));
  assert.equal(begins.length, 40);
  assert.deepEqual(begins, [...begins].sort((a, b) => a - b));
});

test('an operation is found with its call, launch, transfers, and itself on the other ranks', async () => {
  const store = await opened();
  await store.needAll();
  const item = [...store.all(({ kind }) => kind === 'operation')].find(({ events, at }) =>
    events.instance[at] === 30 && locationOf(store, { events, at }).row === 3);
  assert.ok(item);
  const found = related(store, item);
  assert.equal(found.peers.length, 16);
  assert.equal(found.call && nameOf(store, found.call), 'ncclAllReduce');
  assert.equal(found.launch && nameOf(store, found.launch), 'NCCL launch');
  assert.equal(found.work.length, 1);
  assert.equal(found.last && locationOf(store, found.last).row, 11);
  assert.ok(found.last && found.peers.every((peer) => beginOf(peer) <= beginOf(/** @type {any} */ (found.last))));
  assert.ok(found.call);
  const back = related(store, found.call).operation;
  assert.equal(back?.events.instance[back.at], 30);
});

test('hosts close, ranks open, and a place names its location', async () => {
  const store = await opened();
  const closed = layout(store.timeline, store, new Set([0]), new Set(), new Set());
  assert.deepEqual(closed.rows.slice(0, 2).map(({ label }) => label), ['node1: 8 ranks', 'node2']);
  const opened_ = (/** @type {number[]} */ all) =>
    layout(store.timeline, store, new Set(), new Set([0]), new Set(all)).rows;
  const rows = opened_([]);
  const inside = rows.filter((row) => row.what === 'locations');
  assert.deepEqual(inside.map(({ label }) => label), ['ranges', 'calls', 'world', 'network']);
  assert.equal(rows.find(({ what }) => what === 'more')?.label, 'more rows');
  assert.deepEqual(opened_([0]).filter(({ what }) => what === 'locations').map(({ label }) => label).slice(4),
    ['world send→1']);
  assert.equal(rowAt(rows, inside[2].y + 3)?.location, 0);
  assert.equal(rowAt(rows, -5), null);
});

test('a search takes words and conditions', async () => {
  const store = await opened();
  await store.needAll();
  const count = (/** @type {string} */ query) => {
    const matches = matcher(query, store.timeline);
    return matches && [...store.all(({ kind }) => kind === 'operation')].filter(({ events, at }) =>
      matches(events, at)).length;
  };
  assert.equal(count(''), null);
  assert.equal(count('allreduce rank:3'), 32);
  assert.equal(count('rank:3 seq:5'), 1);
  assert.equal(count('reducescatter host:node2'), 8 * 8);
  assert.equal(count('ring'), 640);
  assert.equal(count('nothing-like-it'), 0);
  const late = Number(count('wait>2ms'));
  assert.ok(late > 300 && late < 400, `${late} waited for the late rank`);
});

test('what had not ended is shown neither as waiting nor as transfer', async () => {
  const store = await opened();
  await store.needAll();
  const [item] = store.all(({ kind }) => kind === 'operation');
  assert.equal(store.isUnfinished(item.events, item.at), false);
  const { timeline } = structuredClone(given.model);
  timeline.attributes[0].push(['nccl.unfinished', 1]);
  const hung = new Store(timeline, () => null, () => {});
  hung.chunks = store.chunks;
  assert.equal(hung.isUnfinished(item.events, item.at), true);
  item.events.waiting[item.at] = -1;
  const named = facts(hung, item).map(([name]) => name);
  assert.ok(named.includes('not ended for') && !named.includes('transfer'), named.join());
});

test('a time is measured by what is in it, and who waited comes last', async () => {
  const store = await opened();
  await store.needAll();
  const span = { begin: 0, end: store.timeline.duration_ns };
  const { byName, byRow, unfinished } = measure(store, span.begin, span.end);
  assert.deepEqual([...byName].map(([name, { count }]) => [name, count]),
    [['ncclAllReduce', 32 * 16], ['ncclReduceScatter', 8 * 16]]);
  assert.equal(unfinished, 0);
  const sum = (/** @type {'ns' | 'waiting'} */ what) => byRow.reduce((all, row) => all + row[what], 0);
  const all = [...store.all(({ kind }) => kind === 'operation')];
  assert.equal(sum('waiting'), all.reduce((total, { events, at }) => total + events.waiting[at], 0));
  assert.equal(sum('ns'), all.reduce((total, { events, at }) => total + events.end[at] - events.begin[at], 0));
  const [{ events, at }] = all;
  const middle = (events.begin[at] + events.end[at]) / 2;
  const part = measure(store, middle - 10, middle + 10).byRow[locationOf(store, all[0]).row];
  assert.deepEqual([part.count, part.ns], [1, 20], 'only what is within');
  const text = measured(store, span, 11, true, true).text.replace(/<[^>]+>/g, ' ');
  assert.match(text, /Selected time: .*ncclAllReduce\s+512.*Who waited.*?rank 11/s);
});

test('the moment that matters is where ranks waited most for the rank that the verdict names', async () => {
  const store = await opened();
  const { report } = given.model;
  report.anomalies = [];
  const found = await momentOf(report, store, null, 11);
  const item = found?.item;
  assert.ok(item && endOf(item) > report.causes[0].since_ns);
  assert.ok(found.end - found.begin < store.timeline.duration_ns / 4);
  assert.equal(locationOf(store, item).row, 11);
  assert.match(sentenceOf(store, item)?.text ?? '', /Rank 11 comes 3\.\d+.ms after the others/);
  // The delay is seen as a whole: from before the others arrive to the end.
  const { peers } = related(store, item);
  assert.equal(peers.length, 16);
  assert.ok(peers.every((peer) => beginOf(peer) > found.begin && endOf(peer) < found.end));
  assert.ok(found.end - found.begin < 5 * (endOf(item) - Math.min(...peers.map(beginOf))));
  const healthy = { ...report, causes: [], verdict: { ...report.verdict, finding: /** @type {const} */ ('healthy') } };
  assert.equal(await momentOf(healthy, store, null, null), null);
  // A hang begins with its longest wait.
  const finding = /** @type {const} */ ('unfinished');
  const hang = hangReport();
  hang.communicators[0].sequences[0].waited_ns = store.timeline.duration_ns / 4;
  const hung = await momentOf({ ...report, causes: [], verdict: { ...report.verdict, finding } }, store,
    /** @type {any} */ (hang), null);
  assert.equal(Math.round((hung?.begin ?? 0) / store.timeline.duration_ns * 100), 73);
  assert.equal(hung?.end, store.timeline.duration_ns);
});

test('a range has the number of its name, an operation that of NCCL', async () => {
  const store = await opened();
  await store.needAll();
  const names = (/** @type {string} */ wanted) => [...store.all(({ kind }) => kind === wanted)].map((item) =>
    fullName(store, item));
  assert.ok(names('operation').includes('ncclAllReduce seq 5'));
  store.timeline.attributes[2].push(['nvtx.number', 65]);
  store.timeline.names[5] = 'step #';
  assert.ok(names('range').includes('step 65'));
});

test('a view is complete where the page has all of its events', async () => {
  const { timeline } = structuredClone(given.model);
  Object.assign(timeline, { complete: [[1000, 2000], [2001, 3000], [5000, 6000]] });
  const store = new Store(timeline, () => null, () => {});
  const views = /** @type {[number, number][]} */ ([[1500, 2500], [1000, 3000], [2500, 5500], [0, 1500], [5500, 6001]]);
  assert.deepEqual(views.map(([begin, end]) => store.isComplete(begin, end)), [true, true, false, false, false]);
  const all = store.count;
  assert.equal(Math.round(store.allIn(0, timeline.duration_ns)), all);
  assert.equal(Math.round(store.allIn(0, timeline.duration_ns / 4)), all / 4);
});
