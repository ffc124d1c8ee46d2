// Markup: everything that comes from the trace goes through `html`, which escapes it.

/** Text that is markup already. */
export class Html {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

const ESCAPES = /** @type {Record<string, string>} */ ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' });

/** Names with characters that would turn around the text behind them. @param {string} text */
export const visible = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (c) =>
  `\\u{${c.charCodeAt(0).toString(16)}}`);

/** @param {string} text */
export const escape = (text) => visible(text).replace(/[&<>"]/g, (c) => ESCAPES[c]);

/** @param {unknown} value @returns {string} */
function piece(value) {
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map(piece).join('');
  return value === false ? '' : escape(String(value ?? ''));
}

/** Names with backticks of their own, as a pattern. */
let odd = '';

/** Tells which names a sentence may have between backticks. @param {string[]} names */
export function quotes(names) {
  odd = names.filter((name) => name.includes('`')).sort((a, b) => b.length - a.length)
    .map((name) => `${escape(name).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}|`).join('');
}

/** A sentence of the tool: what it has between backticks is code. @param {string} text */
export const prose = (text) =>
  new Html(escape(text).replace(new RegExp(`\`(${odd}[^\`]+)\``, 'g'), '<code>$1</code>'));

/**
 * Markup with its values escaped.
 * @param {TemplateStringsArray} parts
 * @param {unknown[]} values
 */
export function html(parts, ...values) {
  return new Html(parts.reduce((text, part, at) => text + piece(values[at - 1]) + part));
}

/** A unit, or what is said aside. @param {unknown} text */
export const unit = (text) => html`<span class="u">${text}</span>`;

/** Names with their values. @param {[string, unknown][]} pairs */
export const entries = (pairs) =>
  html`<dl class="kv">${pairs.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
