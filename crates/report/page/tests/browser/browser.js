// A browser, the pages of synthetic jobs in it, and pictures of them. CHROMIUM names another browser; SCREENSHOTS a
// folder for pictures to look at.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';

import puppeteer from 'puppeteer-core';

import { job, page as pageOf } from '../fixture.js';

const { CHROMIUM = '/usr/bin/chromium', SCREENSHOTS } = process.env;
export const folder = mkdtempSync(join(tmpdir(), 'report-'));
/** @type {import('puppeteer-core').Browser} */
let browser;

before(async () => {
  // Root has no sandbox; the pages are this project's own.
  browser = await puppeteer.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/**
 * Opens a page, and fails at the first thing that it says on the console.
 * @param {string} file
 * @param {string} [hash]
 * @param {number} [width] Of the window
 */
export async function open(file, hash = '', width = 1440) {
  const page = await browser.newPage();
  const said = /** @type {string[]} */ ([]);
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (request) => {
    if (!/^(file|data|blob):/.test(request.url())) said.push(`asks for ${request.url()}`);
  });
  await page.setViewport({ width, height: 1000 });
  const began = Date.now();
  await page.goto(`file://${file}${hash}`);
  await page.waitForSelector('html[data-ready]', { timeout: 30_000 }).catch(() => {
    throw new Error(`${file} does not get ready: ${said.join('; ')}`);
  });
  return { page, said, took: Date.now() - began };
}

/** @param {Parameters<typeof job>[0]} options @param {string} name @param {(model: any) => void} [change] */
export function write(options, name, change = () => {}) {
  const { model, blobs } = job(options);
  change(model);
  const file = join(folder, `${name}.html`);
  writeFileSync(file, pageOf(model, blobs));
  return file;
}

/** @param {import('puppeteer-core').Page} page @param {string} name @param {boolean} [whole] */
export async function picture(page, name, whole = false) {
  if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: whole });
}

/** @param {import('puppeteer-core').Page} page @param {string} selector */
export const text = (page, selector) => page.$eval(selector, (element) => element.textContent ?? '');

/** @param {import('puppeteer-core').Page} page */
export async function settled(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}
