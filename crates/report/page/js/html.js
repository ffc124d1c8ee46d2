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

/** @param {string} text */
export const escape = (text) => text.replace(/[&<>"]/g, (c) => ESCAPES[c]);

/** Text between backticks is code. @param {unknown} value @returns {string} */
function piece(value) {
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map(piece).join('');
  return value === false ? '' : escape(String(value ?? '')).replace(/`([^`]+)`/g, '<code>$1</code>');
}

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
