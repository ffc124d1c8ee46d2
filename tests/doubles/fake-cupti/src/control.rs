//! The functions by which a program plays the GPU and the other tools: see the table in `README.md`.

use crate::c_args::{In, Text};
use crate::client::ApiCall;
use crate::clock;
use crate::counters::{self, API_CALLS};
use crate::gpu;
use crate::knobs::knobs;
use crate::level::kind;
use crate::other_tool;
use crate::records::Work;
use crate::registry;
use crate::result::Code;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// `cuGraphLaunch`
const GRAPH_LAUNCH: u32 = 514;

/// The same text always has the same address, and for ever: CUPTI owns the names.
fn intern(name: Text) -> Option<&'static CStr> {
    static NAMES: Mutex<BTreeSet<&'static CStr>> = Mutex::new(BTreeSet::new());
    let name = CString::new(name.get()?).ok()?;
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name.as_c_str()) {
        return Some(known);
    }
    let own: &'static CStr = Box::leak(name.into_boxed_c_str());
    names.insert(own);
    Some(own)
}

static STREAMS: Mutex<Option<HashMap<usize, u32>>> = Mutex::new(None);

type AskStream = extern "C" fn(usize) -> u32;

/// CUPTI's number of a stream: as it was told, or as the stand-in for a GPU has it.
pub(crate) fn stream_id(stream: usize) -> Option<u32> {
    if let Some(told) = STREAMS
        .lock()
        .as_ref()
        .and_then(|streams| streams.get(&stream).copied())
    {
        return Some(told);
    }
    static ASK: OnceLock<Option<AskStream>> = OnceLock::new();
    let ask = ASK.get_or_init(|| {
        // SAFETY: a constant name, looked up in what the process has mapped for everybody.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fakegpu_cupti_stream".as_ptr()) };
        // SAFETY: NULL is None, and anything else is the stand-in's function, of this type.
        unsafe { std::mem::transmute::<*mut c_void, Option<AskStream>>(found) }
    });
    ask.map(|ask| ask(stream)).filter(|id| *id != 0)
}

/// `struct fake_cupti_work`
#[repr(C)]
#[derive(Clone, Copy)]
struct WorkArgs {
    correlation: u32,
    device: u32,
    context: u32,
    stream: u32,
    name: Text,
    graph: u32,
    source_graph: u32,
    node: u64,
    source_node: u64,
    copy_kind: u32,
    thread: i32,
    bytes: u64,
    start_ns: u64,
    end_ns: u64,
}

fn work(args: &WorkArgs) -> Work {
    Work {
        correlation: args.correlation,
        device: args.device,
        context: args.context,
        stream: args.stream,
        name: intern(args.name),
        graph: args.graph,
        source_graph: args.source_graph,
        node: args.node,
        source_node: args.source_node,
        copy_kind: args.copy_kind,
        copied: args.bytes,
    }
}

fn kernel(correlation: u32, device: u32, context: u32, stream: u32, name: Text) -> Work {
    Work {
        correlation,
        device,
        context,
        stream,
        name: intern(name),
        graph: 0,
        source_graph: 0,
        node: 0,
        source_node: 0,
        copy_kind: 0,
        copied: 0,
    }
}

fn api_call(kind: u32, cbid: u32) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let correlation = NEXT.fetch_add(1, Ordering::Relaxed);
    let number = API_CALLS.add(1);
    if knobs().takeover_after == Some(number) {
        let _ = other_tool::act(other_tool::TAKE_BUFFERS);
    }
    let start = clock::now();
    for client in registry::clients() {
        client.note_call(&ApiCall {
            kind,
            cbid,
            correlation,
            start,
            end: start + 2_000,
        });
    }
    correlation
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_api(kind: u32, cbid: u32) -> u32 {
    api_call(kind, cbid)
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_launch(
    cbid: u32,
    device: u32,
    context: u32,
    stream: u32,
    name: Text,
    graph_node: u64,
    start_ns: u64,
    end_ns: u64,
) -> u32 {
    let correlation = api_call(kind::DRIVER, cbid);
    if graph_node == 0 {
        gpu::run(
            kernel(correlation, device, context, stream, name),
            0,
            start_ns,
            end_ns,
        );
    }
    correlation
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_memcpy(
    cbid: u32,
    device: u32,
    context: u32,
    stream: u32,
    copy_kind: u32,
    bytes: u64,
    start_ns: u64,
    end_ns: u64,
) -> u32 {
    let correlation = api_call(kind::RUNTIME, cbid);
    let copy = Work {
        copy_kind,
        copied: bytes,
        ..kernel(correlation, device, context, stream, Text::NONE)
    };
    gpu::run(copy, 0, start_ns, end_ns);
    correlation
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_graph_launch(
    device: u32,
    context: u32,
    stream: u32,
    graph: u32,
    count: u32,
    names: In<Text>,
    nodes: In<u64>,
) -> u32 {
    let correlation = api_call(kind::DRIVER, GRAPH_LAUNCH);
    for index in 0..usize::try_from(count).unwrap_or(0) {
        let (Some(name), Some(node)) = (names.element(index), nodes.element(index)) else {
            break;
        };
        let replayed = Work {
            graph,
            node,
            source_node: node,
            ..kernel(correlation, device, context, stream, name)
        };
        gpu::run(replayed, 0, 0, 0);
    }
    correlation
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_work(args: In<WorkArgs>) {
    if let Some(args) = args.get() {
        gpu::run(work(&args), args.thread, args.start_ns, args.end_ns);
    }
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_work_begin(args: In<WorkArgs>) -> gpu::Ticket {
    args.get().map_or(0, |args| {
        gpu::begin(work(&args), args.thread, args.start_ns)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_work_end(ticket: gpu::Ticket, end_ns: u64) {
    gpu::end(ticket, end_ns);
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_stream(cu_stream: usize, stream: u32) {
    STREAMS
        .lock()
        .get_or_insert_default()
        .insert(cu_stream, stream);
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_drain() {
    gpu::drain();
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_other_tool(action: u32) -> Code {
    other_tool::act(action)
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_count(name: Text) -> u64 {
    name.get()
        .and_then(|name| counters::by_name(&name))
        .unwrap_or(u64::MAX)
}
