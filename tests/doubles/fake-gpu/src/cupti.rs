//! Tells a double of libcupti what was launched and when it ran, if the process has mapped one
//! (`tests/doubles/fake-cupti`). A tool maps it, late or never; nothing is mapped from here. The real libcupti has no
//! such functions, and hears nothing.

use crate::mapped::{mapped, open_mapped};
use crate::stream::Occasion;
use c_double::{Work, realtime_ns};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null;
use std::sync::OnceLock;

/// `CUPTI_ACTIVITY_KIND_DRIVER`
pub(crate) const DRIVER: u32 = 4;
/// `CUPTI_ACTIVITY_KIND_RUNTIME`
pub(crate) const RUNTIME: u32 = 5;

/// Numbers of the functions: `CUpti_driver_api_trace_cbid`, `CUpti_runtime_api_trace_cbid`
pub(crate) mod cbid {
    pub(crate) const LAUNCH_KERNEL: u32 = 307;
    pub(crate) const LAUNCH_KERNEL_EX: u32 = 652;
    pub(crate) const GRAPH_LAUNCH: u32 = 514;
    pub(crate) const MEMCPY_ASYNC: u32 = 41;
}

type Api = unsafe extern "C" fn(u32, u32) -> u32;
type Begin = unsafe extern "C" fn(*const Work, *const c_char) -> u64;
type End = unsafe extern "C" fn(u64, u64);

#[derive(Clone, Copy)]
struct Feed {
    api: Api,
    begin: Begin,
    end: End,
}

fn find() -> Option<Feed> {
    let (_, path) = mapped("libcupti.so").into_iter().next()?;
    // The handle is not given back: the functions are used until the process ends.
    let library = open_mapped(&CString::new(path).ok()?)?;
    let symbol = |name: &CStr| {
        // SAFETY: a live handle and a constant name.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let api = symbol(c"fake_cupti_api")?;
    let begin = symbol(c"fake_cupti_work_begin")?;
    let end = symbol(c"fake_cupti_work_end")?;
    Some(Feed {
        // SAFETY: not NULL, and the double's function of this name has this type.
        api: unsafe { std::mem::transmute::<*mut c_void, Api>(api) },
        // SAFETY: as above.
        begin: unsafe { std::mem::transmute::<*mut c_void, Begin>(begin) },
        // SAFETY: as above.
        end: unsafe { std::mem::transmute::<*mut c_void, End>(end) },
    })
}

fn feed() -> Option<Feed> {
    static FEED: OnceLock<Feed> = OnceLock::new();
    if let Some(feed) = FEED.get() {
        return Some(*feed);
    }
    let found = find()?;
    Some(*FEED.get_or_init(|| found))
}

/// The calling thread is in an API call; its correlation id, 0 if nobody listens.
pub(crate) fn api_call(kind: u32, cbid: u32) -> u32 {
    // SAFETY: the double's function takes any numbers.
    feed().map_or(0, |feed| unsafe { (feed.api)(kind, cbid) })
}

/// Something that runs on the device, until it is dropped.
pub(crate) struct Running {
    feed: Feed,
    ticket: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: the ticket is the one that the double gave.
        unsafe { (self.feed.end)(self.ticket, realtime_ns()) }
    }
}

pub(crate) enum Activity<'a> {
    Kernel(&'a CStr),
    /// with its `CUpti_ActivityMemcpyKind` and bytes
    Copy(u32, usize),
}

pub(crate) fn begin(occasion: &Occasion, what: &Activity<'_>) -> Option<Running> {
    let feed = feed()?;
    let (name, copy_kind, bytes) = match what {
        Activity::Kernel(name) => (name.as_ptr(), 0, 0),
        Activity::Copy(kind, bytes) => (null(), *kind, *bytes as u64),
    };
    let replay = occasion.replay.unwrap_or_default();
    let work = Work {
        correlation: occasion.correlation,
        device: occasion.device as u32,
        context: occasion.device as u32 + 1,
        stream: stream_number(occasion.stream),
        name: 0,
        graph: replay.graph as u32,
        source_graph: replay.source_graph as u32,
        node: replay.node,
        source_node: replay.source_node,
        copy_kind,
        thread: occasion.thread,
        bytes,
        start_ns: realtime_ns(),
    };
    // SAFETY: the structure is the one of the double's table, and lives during the call, as does the name.
    let ticket = unsafe { (feed.begin)(&raw const work, name) };
    Some(Running { feed, ticket })
}

/// The number that CUPTI gives a stream; not the driver's.
fn stream_number(id: u64) -> u32 {
    const DEFAULT_STREAM: u32 = 7;
    if id == 0 { DEFAULT_STREAM } else { (id as u32).saturating_sub(4) }
}
