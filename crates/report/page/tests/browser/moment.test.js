// What the page shows at first, and whom it names: the late rank, and what is not known of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hangReport } from '../fixture.js';
import { open, text, write } from './browser.js';

test('the moment has the whole wait also without an anomaly, and where clocks do not tell who came last', async () => {
  const file = write({}, 'unclear', ({ report }) => {
    Object.assign(report, { anomalies: [] });
  });
  const { page, said } = await open(file);
  assert.match(await text(page, '#moment'), /^Rank 11 comes 3\.\d+.ms after the others to nccl\w+ seq \d+; they/);
  assert.match(await text(page, '#selected h3'), /^nccl\w+ seq \d+ rank 11$/);
  const sums = await page.$$eval('#selected h4', (all) => all.map((head) => head.textContent));
  assert.ok(sums.includes('Who waited; whom the others wait for comes first'), sums.join());
  assert.deepEqual(said, []);
  await page.close();
  const unknown = await open(write({ isUncompared: true }, 'uncompared', ({ report }) => {
    Object.assign(report, { anomalies: [], lateness: { ...report.lateness, ranks: report.ranks.map(() => []) } });
  }));
  assert.match(await text(unknown.page, '#moment'),
    /^Rank 11 is in nccl\w+ seq \d+ for 900.µs, the median of the others for [45]\.\d+.ms/);
  await unknown.page.focus('#events');
  await unknown.page.keyboard.press('Escape');
  assert.match(await text(unknown.page, '#selected'), /Who waited is not known/);
  assert.doesNotMatch(await text(unknown.page, '#selected'), /No wait is seen/);
  assert.deepEqual(unknown.said, []);
  await unknown.page.close();
});

test('the rank that the verdict names is in every list of ranks, and links lead to sections that exist', async () => {
  const { page, said } = await open(write({ ranks: 64, steps: 60, late: 40 }, 'named', ({ report }) => {
    report.run.comparable = 0;
    for (const { budget } of report.ranks) Object.assign(budget, { waiting_ns: 0, unclear_ns: 3e8 });
  }));
  await page.focus('#events');
  await page.keyboard.press('Escape');
  await page.keyboard.press('0');
  await page.waitForFunction(() => /Who waited/.test(document.getElementById('selected')?.textContent ?? ''));
  assert.equal(await text(page, '#selected tr.mark th'), 'rank 40');
  assert.equal(await text(page, '#time tbody tr.mark th'), 'rank 40');
  assert.match(await text(page, '#time .lede'), /Who waits for whom is not known/);
  assert.equal(await page.$('#skew'), null);
  const dead = await page.$$eval('a[href^="#"]', (all) => all.map((link) => link.getAttribute('href')?.slice(1) ?? '')
    .filter((id) => !/^(at|anomaly)=/.test(id) && !document.getElementById(id)));
  assert.deepEqual(dead, []);
  assert.deepEqual(said, []);
  await page.close();
});

test('an operation that a hang kept from ending is drawn to the end of the recording', async () => {
  const file = write({ ranks: 4, steps: 40, late: 2 }, 'enqueued', (model) => {
    const { report, timeline } = model;
    model.hang = hangReport();
    Object.assign(model.hang.communicators[0].sequences[0].first_incomplete, { sequence: 38 });
    // Of the fixture's operations only the call is known.
    timeline.attributes[0].splice(2, 1, ['nccl.timing', 'enqueue']);
    Object.assign(report.verdict, { finding: 'unfinished', line: model.hang.verdict.line });
    Object.assign(report, { anomalies: [], causes: [] });
    timeline.duration_ns += 5e9;
    timeline.complete[0][1] = timeline.duration_ns;
  });
  const { page, said } = await open(file);
  await page.focus('#events');
  await page.keyboard.press('0');
  await page.waitForFunction(() => /3 of them had not ended, for 15\.\d+.s/
    .test(document.getElementById('selected')?.textContent?.replace(/\s+/g, ' ') ?? ''));
  assert.equal(await text(page, '#selected tr.mark th'), 'rank 2');
  assert.deepEqual(said, []);
  await page.close();
});
