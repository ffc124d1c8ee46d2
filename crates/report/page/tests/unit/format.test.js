import assert from 'node:assert/strict';
import { test } from 'node:test';

import { busBytes, busFactor, bytes, duration, gigabytes, moment, number, quantile, sizes } from '#page/format';
import { html, prose, quotes } from '#page/html';

const plain = (/** @type {string} */ text) => text.replaceAll('\u202f', ' ');

test('numbers have thin spaces, a true minus, and no negative zero', () => {
  assert.equal(number(1234567.891, 1), '1\u202f234\u202f567.9');
  assert.equal(number(-12), '−12');
  assert.equal(number(-0.001, 1), '0.0');
  assert.equal(number(null), '–');
  assert.equal(number(NaN), '–');
});

test('durations and sizes choose their unit', () => {
  assert.deepEqual([999, 1500, 123456, 4_500_000, 2e9].map((ns) => plain(duration(ns))),
    ['999 ns', '1.5 µs', '123 µs', '4.50 ms', '2.000 s']);
  assert.deepEqual([4, 1536, 64 << 20].map((size) => plain(bytes(size))), ['4 B', '1.5 KiB', '64 MiB']);
  assert.equal(plain(sizes(1024, 2047)), '1 KiB … 2.0 KiB');
  assert.equal(plain(duration(0)), '0');
  // In the unit that durations of the run have, as fine as the ticks.
  assert.deepEqual([[1.5e9, 3e9, 5e8], [1_234_567, 5e6, 1000], [2e6, 5e6, 1e6], [20_000, 1e5, 1e4]].map(
    ([at, whole, step]) => plain(moment(at, whole, step))), ['1.5 s', '1.235 ms', '2 ms', '20 µs']);
});

test('a small rate has digits, and no rate is none', () => {
  assert.deepEqual([37e9, 2.5e8, 4e5, 0, null].map(gigabytes), ['37.0', '0.250', '0.00040', '–', '–']);
});

test('quantiles are those of the sorted values', () => {
  assert.equal(quantile([1, 2, 3, 4, 100], 0.5), 3);
  assert.equal(quantile([1, 2, 3, 4, 100], 1), 100);
});

test('busbw is that of nccl-tests', () => {
  assert.equal(busFactor('ncclAllReduce', 4), 1.5);
  assert.equal(busFactor('ncclAllGather', 4), 0.75);
  assert.equal(busFactor('ncclReduceScatter', 4), 0.75);
  assert.equal(busFactor('ncclBroadcast', 4), 1);
  assert.equal(busFactor('ncclSend', 4), null);
  assert.equal(busBytes('ncclAllGather', 10, 4), 40);
  assert.equal(busBytes('ncclAllReduce', 10, 4), 10);
});

test('what comes from a trace is escaped', () => {
  const name = '<script>alert("x")</script>';
  assert.equal(html`<b title="${name}">${[name]}</b>`.text.includes('<script>'), false);
  assert.equal(html`<b>${html`<i>${'a & b'}</i>`}${null}${false}${0}</b>`.text, '<b><i>a &amp; b</i>0</b>');
  // Between backticks is code in sentences of the tool; a name may have backticks of its own.
  assert.equal(html`<p>${'`a <b>` says it'}</p>`.text, '<p>`a &lt;b&gt;` says it</p>');
  assert.equal(prose('in `a <b>`, or `c`.').text, 'in <code>a &lt;b&gt;</code>, or <code>c</code>.');
  quotes(['step > `x` of **y** `']);
  assert.equal(prose('late, in `step > `x` of **y** ``').text, 'late, in <code>step &gt; `x` of **y** `</code>');
});
