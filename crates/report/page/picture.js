// Takes the picture of a page that the documentation shows: node picture.js PAGE PICTURE. CHROMIUM names the browser.

import { argv, env } from 'node:process';
import { setTimeout } from 'node:timers/promises';

import puppeteer from 'puppeteer-core';

const [page = '', picture = ''] = argv.slice(2);
const browser = await puppeteer.launch({ executablePath: env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage'] });
const tab = await browser.newPage();
await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
await tab.setViewport({ width: 1400, height: 1000 });
await tab.goto(`file://${page}`);
await tab.waitForSelector('html[data-ready]');
// The panel is filled once the view is still.
await setTimeout(500);
const bottom = await tab.$eval('#rows', (rows) => Math.ceil(rows.getBoundingClientRect().bottom));
await tab.screenshot({ path: /** @type {`${string}.png`} */ (picture), captureBeyondViewport: true,
  clip: { x: 0, y: 0, width: 1400, height: bottom + 260 } });
await browser.close();
