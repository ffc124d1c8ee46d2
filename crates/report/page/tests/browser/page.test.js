// The page in Chromium, as a person uses it. REPORTS names a folder of pages that the tool made of real archives.

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { comparison, hangReport, page as pageOf } from '../fixture.js';
import { folder, open, picture, settled, text, write } from './browser.js';

const { REPORTS } = process.env;

/** When what is under the mouse began, in ms. @param {import('puppeteer-core').Page} page */
const begin = async (page) =>
  Number(/begin([\d\u202f.]+)/.exec(await text(page, '#tip'))?.[1].replaceAll('\u202f', ''));

test('the page has its sections in the order in which an expert reads', async () => {
  const { page, said } = await open(write({}, 'sections'));
  assert.deepEqual(await page.$$eval('main > [id]', (all) => all.map(({ id }) => id)), ['facts', 'verdict',
    'timeline', 'time', 'skew', 'pairs', 'channels', 'wires', 'phases', 'steps', 'path', 'operations', 'making',
    'anomalies', 'completeness', 'how']);
  assert.deepEqual(await page.$$eval('section > details:not([open])', (all) => all.map((one) =>
    one.parentElement?.id)), ['channels', 'wires', 'operations', 'anomalies', 'how']);
  const evidence = await page.$$eval('.verdict > .because li', (all) => all.map((line) => line.textContent));
  assert.match(evidence[0] ?? '', /^200 of 200 collectives/);
  assert.match(await text(page, '#moment'), /^Rank 11 comes 3\.\d+.ms after the others to ncclAllReduce seq 186/);
  assert.match(await text(page, '#selected h3'), /ncclAllReduce seq 186 rank 11/);
  assert.match(await text(page, '.verdict .v'), /^Rank 11 was late from/);
  assert.equal(await text(page, '.verdict .v em'), 'Rank 11');
  assert.match(await text(page, '#time tbody tr.mark'), /^rank 11/);
  assert.match(await text(page, '#skew tbody tr.mark'), /7\.150\s?s/, 'of collectives, and of sends and receives');
  assert.match(await text(page, '#phases'),
    /33\s%\s+of\s+all\s+waiting\s+is\s+in\s+operations\s+called\s+in\s+step # > backward/);
  assert.match(await text(page, '#steps'), /A step is the range\s+step #, on 16 processes.*40\s%\s.*communication/s);
  assert.match(await text(page, '#steps tbody tr'), /^step \d+.*rank 0/s);
  assert.match(await text(page, '#path tbody tr'), /computing\s*rank 0\s*90\s%\s*in step # > load.*50\.0\s%/s);
  assert.match(await text(page, '#making tbody tr.mark'), /ncclCommDestroy.*rank 15 \(rank 15 \[node:1\]\)/s);
  assert.match(await text(page, '#completeness .lede'), /214 callbacks could not be recorded/);
  assert.match(await text(page, '#completeness'), /call different things\s*count: world: rank 3 has 8/);
  assert.match(await text(page, '#completeness'), /NCCL_OTF2_GPU=cupti NCCL_OTF2_CUPTI_KERNELS=all/);
  await picture(page, 'light', true);
  await page.click('#theme');
  assert.equal(await page.$eval('html', (root) => root.dataset.theme), 'dark');
  await picture(page, 'dark', true);
  assert.deepEqual(said, []);
  await page.close();
});

test('tables sort, and the matrix and its table choose a pair', async () => {
  const { page, said } = await open(write({}, 'tables'));
  const first = () => text(page, '#operations tbody th');
  assert.equal(await first(), 'ncclAllReduce');
  // Its heading unfolds it, and so does a link to it.
  await page.click('nav a[href="#operations"]');
  assert.ok(await page.$eval('#operations details', (details) => details.hasAttribute('open')));
  await page.click('#operations [data-column="0"]');
  await page.click('#operations [data-column="0"]');
  assert.equal(await first(), 'ncclReduceScatter');
  assert.equal(await page.$eval('#operations th[aria-sort]', (head) => head.getAttribute('aria-sort')), 'descending');
  assert.match(await text(page, '#pair-plot h3'), /^3 → 11/);
  await page.click('#pair-table a[data-from="5"]');
  assert.match(await text(page, '#pair-plot h3'), /^5 → 13/);
  await page.focus('#matrix');
  await page.keyboard.press('ArrowLeft');
  assert.match(await text(page, '#matrix-say'), /^5 → 12: no traffic/);
  await page.click('#matrix-mode [data-value="latency"]');
  await page.click('#pair-table a[data-from="3"]');
  assert.match(await text(page, '#matrix-say'), /^3 → 11: 39\.0\u202fµs/);
  assert.deepEqual(said, []);
  await page.close();
});

test('the timeline hovers, zooms, selects, walks, opens ranks and links', async () => {
  const { page, said } = await open(write({}, 'timeline'));
  await page.$eval('#timeline', (element) => element.scrollIntoView());
  const canvas = await page.$('#events');
  const box = await canvas?.boundingBox();
  assert.ok(box);
  await page.focus('#events');
  await page.keyboard.press('Escape');
  await page.keyboard.press('0');
  await settled(page);
  const place = /** @type {[number, number]} */ ([box.x + 300, box.y + 65]);
  await page.mouse.move(...place);
  await settled(page);
  assert.match(await text(page, '#tip'), /ncclAllReduce seq \d+ rank 0.*algo.*RING.*Last:\s+rank 11/s);
  const before_ = await begin(page);
  await page.mouse.click(...place);
  assert.match(await text(page, '#selected'), /The same on 16 ranks/);
  assert.match(await text(page, '#selected'), /call ncclAllReduce.*launch.*operation begins.*last rank arrives.*ends/s);
  const link = await page.evaluate(() => location.hash);
  assert.match(link, /^#at=\d+\.0$/);
  await page.keyboard.press('f');
  await page.keyboard.press('Enter');
  await settled(page);
  await picture(page, 'timeline');
  await page.keyboard.press('ArrowDown');
  assert.match(await text(page, '#live'), /rank 1\/16/);
  await page.keyboard.press('ArrowRight');
  assert.notEqual(await page.evaluate(() => location.hash), link);
  await page.keyboard.press('0');
  await page.mouse.wheel({ deltaY: -250 });
  await page.mouse.wheel({ deltaY: -250 });
  await settled(page);
  await page.mouse.move(place[0] + 200, place[1]);
  await settled(page);
  await page.mouse.move(place[0] + 1, place[1]);
  await settled(page);
  assert.ok(Math.abs((await begin(page)) - before_) < 30, 'the wheel zooms around the mouse');
  const height = await page.$eval('#below', (element) => element.getBoundingClientRect().bottom);
  await page.click('[data-key="e"]');
  await page.click('[data-key="e"]');
  assert.ok(await page.$eval('#below', (element) => element.getBoundingClientRect().bottom) > height);
  assert.deepEqual(said, []);
  await page.close();
  const again = await open(join(folder, 'timeline.html'), link);
  assert.match(await text(again.page, '#selected'), /ncclAllReduce seq \d+ rank 0/);
  assert.deepEqual(again.said, []);
  await again.page.close();
});

test('a time that is dragged over is measured, and the page says who waited in it', async () => {
  const { page, said } = await open(write({}, 'measured'));
  await page.$eval('#timeline', (element) => element.scrollIntoView());
  const box = await (await page.$('#events'))?.boundingBox();
  assert.ok(box);
  assert.match(await text(page, '#selected'), /In view: .*Who waited/s);
  await page.mouse.move(box.x + 300, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + 500, box.y + 20, { steps: 4 });
  await page.mouse.up();
  assert.match(await text(page, '#selected h3'), /^Selected time: [\d.]+.(ms|s)$/);
  assert.match(await text(page, '#selected'), /nccl\w+\s*16.*Who waited[^]*?rank 11/s);
  await picture(page, 'measured');
  const length = () => page.$eval('#selected h3', (head) => head.textContent);
  const before_ = await length();
  await page.keyboard.down('Shift');
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 700, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  assert.notEqual(await length(), before_);
  await page.focus('#events');
  await page.keyboard.press('Escape');
  assert.match(await text(page, '#selected h3'), /^In view/);
  await page.click('[data-key="m"]');
  assert.match(await text(page, '#selected h3'), /^Selected time/);
  assert.deepEqual(said, []);
  await page.close();
});

test('the page of a hang says who entered and who did not, in a colour of its own', async () => {
  const file = write({ ranks: 4, steps: 40, late: 2 }, 'hang', (model) => {
    const { report } = model;
    model.hang = hangReport();
    const basis = [...model.hang.verdict.evidence, 'Ranks waited.'];
    Object.assign(report.verdict, { finding: 'unfinished', line: model.hang.verdict.line, basis });
    Object.assign(report, { anomalies: [], causes: [] });
  });
  const { page, said } = await open(file);
  assert.equal(await text(page, '.verdict .v'), hangReport().verdict.line);
  const colour = (/** @type {string} */ selector) => page.$eval(selector, (part) => getComputedStyle(part).color);
  assert.notEqual(await colour('.verdict .v em'), await colour('nav .hot'));
  assert.match(await text(page, '.verdict .because'), /^\s*Rank 2 was in step > load_batch\.\s*Ranks waited/);
  assert.match(await text(page, '.next'), /^Next: look at the program’s stack in rank 2/);
  assert.equal(await text(page, '#hang .lede'), '3 of 4 ranks entered ncclAllReduce #5 of world; rank 2 did not');
  const rows = await page.$$eval('#hang tbody tr', (all) => all.map((row) =>
    [...row.children].slice(0, 4).map((cell) => cell.textContent)));
  assert.deepEqual(rows[0], ['rank 2', 'no', '13.200\u202fs', 'step > load_batch']);
  assert.deepEqual(rows.slice(1).map(([, entered]) => entered), ['yes', 'yes', 'yes']);
  assert.ok(await page.$('#hang tr.mark'));
  // Nobody is accused of lateness beside it.
  assert.equal(await page.$('#time tr.mark'), null);
  await picture(page, 'hang', true);
  assert.deepEqual(said, []);
  await page.close();
});

test('a search counts, fades and walks what it found; an anomaly links to its place', async () => {
  const { page, said } = await open(write({}, 'search'));
  await page.keyboard.press('/');
  await page.keyboard.type('reducescatter rank:11');
  await page.waitForFunction(() => document.getElementById('found')?.textContent === '40 found');
  await page.keyboard.press('Enter');
  assert.equal(await text(page, '#found'), '1 of 40');
  assert.match(await text(page, '#selected h3'), /ncclReduceScatter seq \d+ rank 11/);
  await picture(page, 'search');
  await page.keyboard.press('Escape');
  await page.$eval('#anomalies details', (details) => details.setAttribute('open', ''));
  await page.click('#anomalies a');
  // The rank that came late, though other rows have the same location's id.
  await page.waitForFunction(() =>
    document.querySelector('#selected h3')?.textContent === 'ncclAllReduce seq 80 rank 11');
  await page.focus('#events');
  await page.keyboard.press('Escape');
  await page.click('#anomalies a');
  await page.waitForFunction(() => /seq 80 rank 11/.test(document.querySelector('#selected h3')?.textContent ?? ''));
  assert.deepEqual(said, []);
  await page.close();
});

test('the page prints, with its colours light', async () => {
  const { page, said } = await open(write({}, 'print'));
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]);
  const pdf = await page.pdf({ preferCSSPageSize: true });
  assert.ok(pdf.length > 20_000);
  await page.emulateMediaType('print');
  await page.setViewport({ width: 1047, height: 718 });
  await new Promise((done) => setTimeout(done, 200));
  await picture(page, 'print', true);
  assert.deepEqual(said, []);
  await page.close();
});

test('a thousand ranks open in seconds, with closed hosts', async () => {
  const file = write({ ranks: 1024, steps: 40, late: 700 }, 'many');
  const { page, said, took } = await open(file);
  assert.ok(took < 30_000, `${took} ms`);
  assert.ok(await page.$('#heat'));
  assert.ok((await page.$$('#time tbody tr')).length < 40);
  await picture(page, 'many', true);
  await page.$eval('#timeline', (element) => element.scrollIntoView());
  const frames = await page.evaluate(async () => {
    const canvas = /** @type {HTMLElement} */ (document.getElementById('events'));
    canvas.focus();
    const times = [];
    for (const key of 'wwwwssssdada') {
      const began = performance.now();
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      times.push(performance.now() - began);
    }
    return times.sort((a, b) => a - b);
  });
  assert.ok(frames[frames.length >> 1] < 500, `a frame takes ${frames} ms`);
  assert.deepEqual(said, []);
  await page.close();
});

test('the page of two runs shows what differs, what could not be compared, and both runs', async () => {
  const file = join(folder, 'diff.html');
  writeFileSync(file, pageOf(comparison(), new Map()));
  const { page, said } = await open(file);
  assert.deepEqual(await page.$$eval('main > [id]', (all) => all.map(({ id }) => id)),
    ['facts', 'verdict', 'operations', 'ranges', 'lacking', 'runs', 'how']);
  assert.equal(await text(page, '.verdict .v em'), 'B is slower');
  assert.match(await text(page, '#ranges tbody tr'), /^step # > load.*4\.00\s?ms.*5\.00\s?ms.*\+25\.0/s);
  assert.match(await text(page, '#operations .lede'), /^1 slower, 1 faster,\s+1 without/);
  const first = () => text(page, '#operations tbody tr');
  assert.match(await first(), /^ncclAllReduce.*68\.2\s?µs.*74\.0\s?µs.*\+8\.5.*\+5\.8\s?µs.*100120slower$/s);
  // Slower is right of the middle, with an interval that does not reach it.
  const places = await page.$$eval('#operations .interval', (all) => all.map((bar) => {
    const [line, point] = [...bar.children].map((part) => part.getBoundingClientRect());
    const { left, width } = bar.getBoundingClientRect();
    return [line.left, point.left + point.width / 2, line.right].map((x) => (x - left) / width - 0.5);
  }));
  assert.deepEqual(places.map((row) => row.map(Math.sign)), [[1, 1, 1], [-1, -1, -1], [-1, 1, 1]]);
  const why = await page.$$eval('#lacking tbody tr', (rows) => rows.map((row) => row.lastElementChild?.textContent));
  assert.deepEqual(why, ['only in B', '50 operations are needed, A has 10 and B 12']);
  const differing = await page.$$eval('#runs tr.mark th', (heads) => heads.map((head) => head.textContent));
  assert.deepEqual(differing, ['NCCL release']);
  await picture(page, 'diff', true);
  await page.click('#theme');
  await picture(page, 'diff-dark', true);
  await page.click('#operations [data-column="5"]');
  await page.click('#operations [data-column="5"]');
  assert.match(await first(), /^ncclAllGather/);
  await page.click('#theme');
  await page.emulateMediaType('print');
  await page.setViewport({ width: 1047, height: 718 });
  await picture(page, 'diff-print', true);
  assert.deepEqual(said, []);
  await page.close();
});

test('what is said of the rest is the last of the findings', async () => {
  for (const rest of ['Nothing else stands out among what ended.', null]) {
    const file = write({}, `rest-${rest === null}`, ({ report }) => {
      Object.assign(report.verdict, { rest });
    });
    const { page, said } = await open(file);
    const found = await text(page, '#verdict');
    assert.equal(found.trim().endsWith(rest ?? 'NONE'), rest !== null, found);
    assert.deepEqual(said, []);
    await page.close();
  }
});

test('an archive without events, one rank, and events that are nowhere have pages', async () => {
  const empty = write({ ranks: 1, steps: 0 }, 'empty', ({ report, timeline }) => {
    Object.assign(report, { operations: [], ranks: [], communicators: [], pairs: [], channels: [], anomalies: [],
      phases: [], steps: null, communicator_calls: [],
      causes: [], lateness: { from_ns: 0, bin_ns: 1, ranks: [] }, clocks: { uncertainty_ns: null, unknown: [],
        sentence: 'Nothing is known of clocks.' },
      verdict: { finding: 'nothing', line: 'Nothing was recorded.', is_partial: false, basis: [], rest: null } });
    Object.assign(report.completeness, { kinds: {}, callbacks_lost: 0 });
    Object.assign(report.budget, { operations_ns: 0, waiting_ns: 0, transfer_ns: 0 });
    Object.assign(timeline, { hosts: [], rows: [], locations: [], names: [], functions: [], chunks: [] });
  });
  const one = write({ ranks: 1, steps: 30, late: 0 }, 'one', ({ report }) => {
    Object.assign(report, { causes: [], anomalies: [],
      verdict: { finding: 'nothing', line: 'One rank.', is_partial: true, basis: [], rest: null } });
  });
  const absent = write({}, 'absent', ({ timeline }) => {
    for (const chunk of timeline.chunks) Object.assign(chunk, { at: 'none' });
  });
  const part = write({}, 'part', ({ part: asked, left_out: cut, timeline }) => {
    Object.assign(timeline, { begin_ns: 5e7, complete: [[1e8, 1.2e8]], all: timeline.all.map(() => 4000) });
    Object.assign(asked, { from_ns: 5e7, ranks: [0, 3] });
    Object.assign(cut, { pairs: 1234, steps: 56 });
  });
  for (const file of [empty, one, absent, part]) {
    const { page, said } = await open(file);
    assert.deepEqual(said, [], file);
    await picture(page, file.split('/').at(-1)?.replace('.html', '') ?? '', true);
    if (file === absent) assert.match(await text(page, '#absent'), /report --full/);
    if (file === part) {
      assert.match(await text(page, '#facts'), /only from 50\.00\s?ms ranks 0, 3/);
      assert.match(await text(page, '#absent'), /has about [\d\u202f]+ of [\d\u202f]+ events of this view/);
      assert.match(await text(page, '#pairs'), /1\u202f?234 more rows of pairs/);
      assert.match(await text(page, '#timeline'), /times of which the page has every event/);
    }
    await page.close();
  }
});

test('pages that the tool made open without a word', { skip: REPORTS ? false : 'REPORTS is not set' }, async () => {
  const files = readdirSync(REPORTS ?? '').filter((name) => name.endsWith('.html'));
  assert.ok(files.length > 0, `${REPORTS} has no page`);
  for (const file of files) {
    const { page, said } = await open(join(REPORTS ?? '', file));
    assert.notEqual(await text(page, '.verdict .v'), '', file);
    if (await page.$('#events')) {
      await page.focus('#events');
      for (const key of /** @type {const} */ (['ArrowRight', 'f', 'w', 's', 'e', '0'])) await page.keyboard.press(key);
    }
    await settled(page);
    // Its events are in a file beside it.
    if (file === 'full.html') assert.match(await text(page, '#selected h3'), /^nccl/);
    if (file === 'score-p.html') assert.match(await text(page, '#timeline'), /The whole run.*other regions/s);
    assert.deepEqual(said, [], file);
    await picture(page, `tool-${file.replace('.html', '')}`, true);
    await page.close();
  }
});
