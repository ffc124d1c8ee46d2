// What the page looks like: narrow windows, legends, axes, what is folded.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { comparison, page as pageOf } from '../fixture.js';
import { folder, open, picture, settled, text, write } from './browser.js';

test('names of any length neither widen the page nor push the numbers out of it', async () => {
  const file = write({}, 'names', (model) => {
    const { report, timeline } = model;
    const name = 'x'.repeat(2000);
    model.title = 'title'.repeat(60);
    report.verdict.basis.unshift(`Rank 11 calls NCCL later, delayed in \`step # > ${name}\`.`);
    for (const phase of report.phases) phase.path = ['step #', name];
    for (const { phase } of report.critical_path.parts) if (phase) phase.path = ['step #', name];
    for (const communicator of report.communicators) communicator.name = 'world'.repeat(20);
    timeline.names[5] = name;
  });
  for (const width of [1400, 420]) {
    const { page, said } = await open(file, '', width);
    await page.evaluate(() => document.querySelectorAll('details').forEach((one) => {
      one.open = true;
    }));
    await page.waitForFunction((wanted) => document.documentElement.scrollWidth === wanted, {}, width);
    const ends = await page.$$eval('#phases td.n, #path td.n', (all) => all.map((cell) =>
      cell.getBoundingClientRect().right));
    if (width === 1400) assert.ok(Math.max(...ends) < width, `numbers end at ${Math.max(...ends)}`);
    await picture(page, `names-${width}`, true);
    await page.setViewport({ width: 420, height: 1000 });
    await page.waitForFunction(() => document.documentElement.scrollWidth === 420);
    assert.deepEqual(said, []);
    await page.close();
  }
});

test('sections without data are one line that says what to record', async () => {
  const file = write({}, 'unrecorded', ({ report }) => {
    Object.assign(report, { topology: null, nics: [], pairs: [], channels: [], messages: [], anomalies: [], phases: [],
      steps: null, communicator_calls: [], critical_path: null });
    Object.assign(report.run, { comparable: 0, has_transfers: false, has_steps: false });
  });
  const { page, said } = await open(file);
  assert.deepEqual(await page.$$eval('main > section', (all) => all.map(({ id }) => id)),
    ['timeline', 'time', 'operations', 'completeness', 'how']);
  const line = await text(page, '#unrecorded');
  for (const [what, record] of [['who is late', 'no collective has arrivals'], ['pairs', 'NCCL_OTF2_EVENTS=standard'],
    ['channels', 'NCCL_OTF2_EVENTS=standard,ProxyStep'], ['hosts and links', 'nccl-otf2 run'],
    ['phases and steps', 'nccl-otf2\\s+run'], ['overlap', 'NCCL_OTF2_CUPTI_KERNELS=all'],
    ['anomalies', 'far longer']]) {
    assert.match(line, new RegExp(`${what}[^;]*${record}`));
  }
  const links = await page.$$eval('nav a', (all) => all.map((link) => link.getAttribute('href')?.slice(1) ?? ''));
  assert.deepEqual(links, ['verdict', 'timeline', 'time', 'operations', 'completeness', 'how']);
  assert.deepEqual(said, []);
  await page.close();
});

test('a page of 420 pixels scrolls down only, and its tables in themselves', async () => {
  const two = join(folder, 'narrow-diff.html');
  writeFileSync(two, pageOf(comparison(), new Map()));
  for (const file of [write({}, 'narrow'), write({ ranks: 80, steps: 40 }, 'narrow-many'), two]) {
    const { page, said } = await open(file, '', 420);
    const tooWide = () => page.evaluate(() => [...document.querySelectorAll('main *')].filter((element) =>
      element.getBoundingClientRect().right > innerWidth + 1 && !element.closest('.wide, .scrolls, pre, svg'))
      .map((element) => `${element.tagName} ${element.className} in ${element.closest('section')?.id}`));
    // Plots are drawn anew once the browser has told them of the new width.
    for (let tries = 0; tries < 50 && (await tooWide()).length > 0; tries++) {
      await new Promise((done) => setTimeout(done, 200));
    }
    assert.deepEqual(await tooWide(), [], file);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 420, file);
    if (file !== two) {
      // Verdict, timeline, and of the rest a line each.
      const open_ = await page.$$eval('section > details[open]', (all) => all.map((one) => one.parentElement?.id));
      assert.deepEqual(open_, ['timeline'], file);
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      assert.ok(height < 3600, `${file}: ${height} pixels`);
      const result = await page.$eval('#time .lede', (line) => line.getBoundingClientRect().height);
      assert.ok(result > 10, 'a folded section shows its result');
      await page.evaluate(() => document.querySelectorAll('details').forEach((one) => {
        one.open = true;
      }));
      for (let tries = 0; tries < 50 && (await tooWide()).length > 0; tries++) {
        await new Promise((done) => setTimeout(done, 200));
      }
      assert.deepEqual(await tooWide(), [], file);
    }
    // Numbers that are reached by scrolling stay beside their name.
    const [box] = await page.$$('#operations .wide');
    const name = () => page.$eval('#operations tbody tr > *', (cell) => cell.getBoundingClientRect().left);
    const before_ = await name();
    assert.ok(await box.evaluate((element) => element.scrollTo(200, 0) ?? element.scrollLeft > 0), file);
    assert.equal(await name(), before_, file);
    if (file === two) {
      const ends = await page.$$eval('#runs td:last-child', (all) => all.map((cell) =>
        cell.getBoundingClientRect().right));
      assert.ok(Math.max(...ends) <= 420, `both runs are side by side: ${ends}`);
    }
    assert.ok(await page.$eval('#theme', (button) => button.getBoundingClientRect().width > 20), file);
    await picture(page, `420-${file.split('/').at(-1)?.replace('.html', '')}`, true);
    await page.click('#theme');
    await picture(page, `420-dark-${file.split('/').at(-1)?.replace('.html', '')}`, true);
    assert.deepEqual(said, [], file);
    await page.close();
  }
});

/**
 * Tokens of the style that events have on the canvas, and those of the legend.
 * @param {import('puppeteer-core').Page} page
 */
const colours = (page) => page.evaluate(() => {
  const style = getComputedStyle(document.documentElement);
  const tokens = ['AllReduce', 'AllGather', 'ReduceScatter', 'Send', 'Recv', 'Broadcast', 'other']
    .map((name) => `f-${name}`).concat('kernel', 'launch', 'seq');
  const known = new Map(tokens.map((name) => {
    const value = parseInt(style.getPropertyValue(`--${name}`).trim().slice(1), 16);
    return [`rgb(${value >> 16}, ${(value >> 8) & 255}, ${value & 255})`, name];
  }));
  const canvas = /** @type {HTMLCanvasElement} */ (document.getElementById('events'));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const counts = /** @type {Record<string, number>} */ ({});
  for (let at = 0; at < data.length; at += 4) {
    const name = known.get(`rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`);
    if (name) counts[name] = (counts[name] ?? 0) + 1;
  }
  const keys = [...document.querySelectorAll('#timeline .key:not([hidden]) i')]
    .flatMap((key) => known.get(getComputedStyle(key).backgroundColor) ?? []);
  // Edges of a range's letters have the colour of kernels here and there.
  const least = (/** @type {string} */ name) => (name === 'kernel' ? 60 : 4);
  return { drawn: Object.keys(counts).filter((name) => counts[name] > least(name)), named: keys.sort() };
});

test('the legend of the timeline has the colours that occur, and no others', async () => {
  const { page, said } = await open(write({}, 'legend'));
  for (const theme of ['light', 'dark']) {
    await page.focus('#events');
    // From far, or from near.
    for (let times = 0; times < 6; times++) await page.keyboard.press('s');
    await settled(page);
    const whole = await colours(page);
    // Launches are seen from near.
    for (const key of /** @type {const} */ (['ArrowRight', 'f'])) await page.keyboard.press(key);
    await settled(page);
    const near = await colours(page);
    const drawn = [...new Set([...whole.drawn, ...near.drawn])].sort();
    assert.deepEqual(near.named, drawn, theme);
    assert.deepEqual(drawn, ['f-AllReduce', 'f-ReduceScatter', 'launch']);
    await page.click('#theme');
  }
  // The browser has an opinion on reading pixels.
  assert.deepEqual(said.filter((line) => !line.includes('getImageData')), []);
  await page.close();
});

test('messages come by what both ends waited, and the rest is behind them', async () => {
  const { page, said } = await open(write({}, 'messages'));
  const rows = () => page.$$eval('#pairs h3 ~ .wide tbody tr', (all) => all.map((row) =>
    [...row.children].slice(-2).map((cell) => cell.textContent?.trim() ?? '')));
  await page.$eval('#pairs details', (details) => details.setAttribute('open', ''));
  const folded = await rows();
  assert.equal(folded.length, 25);
  assert.deepEqual(folded[24], ['Show 16 more']);
  await page.click('#pairs .fold button');
  const ns = (/** @type {string} */ text_) => parseFloat(text_) * (/ms$/.test(text_) ? 1e6 : 1e9);
  const sums = (await rows()).map(([sender, receiver]) => Math.round(ns(sender) + ns(receiver)));
  assert.equal(sums.length, 40);
  assert.deepEqual(sums, [...sums].sort((a, b) => b - a));
  assert.equal(sums[0], 3e9);
  assert.deepEqual(said, []);
  await page.close();
});

test('bars, the matrix and points have legends of what they show', async () => {
  const { page, said } = await open(write({}, 'bars', ({ report }) => {
    Object.assign(report.operations[0].budget, { unclear_ns: 1e8 });
  }));
  await page.$eval('#operations details', (details) => details.setAttribute('open', ''));
  for (const id of ['operations', 'time']) {
    const shown = await page.$$eval(`#${id} .bar > i`, (all) => all.filter((part) =>
      part.getBoundingClientRect().width > 0.5).map((part) => part.className));
    const keys = await text(page, `#${id} .keys`);
    for (const [part, words] of [['hatched', 'waiting'], ['fn', 'transfer'], ['unclear', 'unclear']]) {
      assert.equal(keys.includes(words), shown.includes(part), `${id}: ${words}`);
    }
  }
  assert.match(await text(page, '#matrix-ramp'), /^0\u202fB\s+25\u202fGiB$/);
  assert.match(await text(page, '#pair-plot .keys'), /transfers.*least time.*regression.*median of the others/s);
  assert.deepEqual(said, []);
  await page.close();
});

test('the heat map of lateness and the line below it have one axis of time', async () => {
  for (const [ranks, width] of [[16, 1440], [16, 420], [80, 1440]]) {
    const { page, said } = await open(write({ ranks, late: 11 }, `time-${ranks}`));
    await page.setViewport({ width, height: 1000 });
    await page.$eval('#skew details', (details) => details.setAttribute('open', ''));
    await new Promise((done) => setTimeout(done, 300));
    const gutter = ranks > 64 ? 88 : 0;
    const places = await page.evaluate((selector, left) => {
      const box = (/** @type {Element} */ element) => element.getBoundingClientRect();
      const heat = box(/** @type {Element} */ (document.querySelector(selector)));
      const line = box(/** @type {Element} */ (document.querySelector('#skew .u-over')));
      return [heat.left + left, heat.right, line.left, line.right];
    }, ranks > 64 ? '#heat' : '.strip[data-rank="11"]', gutter);
    const [heatLeft, heatRight, left, right] = places;
    assert.ok(Math.abs(heatLeft - left) <= 1 && Math.abs(heatRight - right) <= 1, `${ranks} ${width}: ${places}`);
    // The rank is late from a third of the run on, in both.
    const onset = await page.evaluate((selector, from, ratio) => {
      const first = (/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ y, /** @type {number} */ skip) => {
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
        const { data } = context.getImageData(0, y, canvas.width, 1);
        for (let x = skip; x < canvas.width; x++) {
          if (data[x * 4 + 3] > 60 && data[x * 4] > 150 && data[x * 4 + 2] < 90) return x;
        }
        return NaN;
      };
      const heat = /** @type {HTMLCanvasElement} */ (document.querySelector(selector));
      const line = /** @type {HTMLCanvasElement} */ (document.querySelector('#skew .u-wrap canvas'));
      const size = heat.id === 'heat' ? heat.height / ratio : heat.height;
      const inHeat = first(heat, Math.floor(size * (heat.id === 'heat' ? 11.5 : 0.5)), from);
      const inLine = first(line, Math.floor(line.height * 0.45), 52);
      return [inHeat + heat.getBoundingClientRect().left, inLine + line.getBoundingClientRect().left];
    }, ranks > 64 ? '#heat' : '.strip[data-rank="11"]', gutter, ranks);
    assert.ok(Math.abs(onset[0] - onset[1]) < 8, `${ranks} ${width}: ${onset}`);
    assert.deepEqual(said, []);
    await page.close();
  }
});
