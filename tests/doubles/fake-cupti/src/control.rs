//! The functions by which a program plays the GPU and another tool: see `README.md`.

use crate::client::{Call, Callbacks};
use crate::level::kind;
use crate::work::Ticket;
use crate::{records, registry, variables, work};
use c_double::args::{In, Text};
use c_double::{Work, counted};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// `cuGraphLaunch`
const GRAPH_LAUNCH: u32 = 514;

/// The address of a name, 0 for none. The same text always has the same one, and for ever: CUPTI owns the names.
fn intern(name: Text) -> u64 {
    static NAMES: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());
    let Some(name) = CString::new(name.get().as_ref()).ok().filter(|name| !name.is_empty()) else {
        return 0;
    };
    let mut names = NAMES.lock();
    names.insert(name.clone());
    names.get(&name).map_or(0, |own| own.as_ptr().expose_provenance() as u64)
}

/// Another tool registers its own buffer callbacks, as V1 lets anybody do. What it does with the buffers is its
/// business.
fn take_over() {
    const WORDS: usize = 8192;
    unsafe extern "C" fn request(start: *mut *mut u8, len: *mut usize, max_records: *mut usize) {
        let own: &'static mut [u64] = Box::leak(vec![0_u64; WORDS].into_boxed_slice());
        // SAFETY: the place for the answer, as the request callback is called.
        unsafe { start.write(own.as_mut_ptr().cast()) };
        // SAFETY: as above.
        unsafe { len.write(WORDS * 8) };
        // SAFETY: as above.
        unsafe { max_records.write(0) };
    }
    unsafe extern "C" fn complete(_: *mut c_void, _: u32, _: *mut u8, _: usize, _: usize) {}
    if let Ok(client) = registry::use_v1() {
        client.state.lock().callbacks = Some(Callbacks::V1(request, complete));
    }
}

fn api_call(kind: u32, cbid: u32) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let correlation = NEXT.fetch_add(1, Ordering::Relaxed);
    if variables::get().takeover_after == u64::from(correlation) {
        take_over();
    }
    let call = Call { kind, cbid, correlation, start: records::now() };
    registry::clients().iter().for_each(|client| client.note_call(&call));
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
        let name = intern(name);
        let kernel = Work { correlation, device, context, stream, name, ..Work::default() };
        work::run(Work { start_ns, ..kernel }, end_ns);
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
    let copy = Work { correlation, device, context, stream, copy_kind, bytes, ..Work::default() };
    work::run(Work { start_ns, ..copy }, end_ns);
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
        let name = intern(name);
        let own = Work { correlation, device, context, stream, name, ..Work::default() };
        work::run(Work { graph, node, source_node: node, ..own }, 0);
    }
    correlation
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_work_begin(given: In<Work>, name: Text) -> Ticket {
    given.get().map_or(0, |given| work::begin(Work { name: intern(name), ..given }, None))
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_work_end(ticket: Ticket, end_ns: u64) {
    work::end(ticket, end_ns);
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_drain() {
    work::drain();
}

/// Another tool of the process switches off what the first one switched on.
#[unsafe(no_mangle)]
extern "C" fn fake_cupti_other_tool(action: u32) -> i32 {
    match (action, registry::use_v1()) {
        (2, Ok(client)) => {
            client.state.lock().kinds.clear();
            0
        }
        (2, Err(code)) => code,
        _ => crate::guard::INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
extern "C" fn fake_cupti_count(name: Text) -> u64 {
    counted(&name.get())
}
