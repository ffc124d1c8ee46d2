//! Activity records, byte by byte.

use crate::level::kind;
use crate::variables;
use c_double::{Work, realtime_ns};

struct Bytes(Vec<u8>);

impl Bytes {
    fn new(kind: u32, len: usize) -> Bytes {
        let mut bytes = Bytes(vec![0; len]);
        bytes.u32(0, kind);
        bytes
    }

    /// Fields behind the end of an older release's record are not there.
    fn put(&mut self, offset: usize, value: &[u8]) {
        if let Some(place) = self.0.get_mut(offset..offset + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn u32(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_le_bytes());
    }

    fn u64(&mut self, offset: usize, value: u64) {
        self.put(offset, &value.to_le_bytes());
    }
}

/// `CUpti_ActivityExternalCorrelation`
pub(crate) fn external(external_kind: u32, id: u64, correlation: u32) -> Vec<u8> {
    let mut bytes = Bytes::new(kind::EXTERNAL_CORRELATION, 24);
    bytes.u32(4, external_kind);
    bytes.u64(8, id);
    bytes.u32(16, correlation);
    bytes.0
}

pub(crate) struct Api {
    pub(crate) kind: u32,
    pub(crate) cbid: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) correlation: u32,
}

/// `CUpti_ActivityAPI`
pub(crate) fn api(call: &Api) -> Vec<u8> {
    let mut bytes = Bytes::new(call.kind, 40);
    bytes.u32(4, call.cbid);
    bytes.u64(8, call.start);
    bytes.u64(16, call.end);
    bytes.u32(24, std::process::id());
    bytes.u32(28, call.thread);
    bytes.u32(32, call.correlation);
    bytes.0
}

/// This time on CUPTI's clock: that of the host, or a counter that another tool has put in its place, 2.9 ticks a
/// nanosecond.
pub(crate) fn stamp(realtime: u64) -> u64 {
    if variables::get().foreign_clock { realtime / 10 * 29 } else { realtime }
}

pub(crate) fn now() -> u64 {
    stamp(realtime_ns())
}

/// `CUpti_ActivityKernelN`, as long as the release's
pub(crate) fn kernel(len: usize, work: &Work, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = Bytes::new(kind::CONCURRENT_KERNEL, len);
    bytes.put(6, &96_u16.to_le_bytes());
    bytes.u64(16, start);
    bytes.u64(24, end);
    bytes.u64(32, end);
    bytes.u32(40, work.device);
    bytes.u32(44, work.context);
    bytes.u32(48, work.stream);
    for (offset, value) in [(52, 2), (56, 1), (60, 1), (64, 288), (68, 1), (72, 1)] {
        bytes.u32(offset, value);
    }
    bytes.u32(92, work.correlation);
    bytes.u64(96, u64::from(work.correlation));
    bytes.u64(104, work.name);
    bytes.u64(144, work.node);
    bytes.u32(156, work.graph);
    bytes.u32(232, work.source_graph);
    bytes.u64(240, work.source_node);
    // What a release to come may put there.
    if let Some(rest) = bytes.0.get_mut(248..) {
        rest.fill(0xab);
    }
    bytes.0
}

/// `CUpti_ActivityMemcpyN`, as long as the release's
pub(crate) fn copy(len: usize, work: &Work, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = Bytes::new(kind::MEMCPY, len);
    let [copy_kind, ..] = work.copy_kind.to_le_bytes();
    // From and to what kind of memory: 1 pageable, 3 device.
    let (from, to) = match copy_kind {
        1 => (1, 3),
        2 => (3, 1),
        _ => (3, 3),
    };
    bytes.put(4, &[copy_kind, from, to]);
    bytes.u64(8, work.bytes);
    bytes.u64(16, start);
    bytes.u64(24, end);
    bytes.u32(32, work.device);
    bytes.u32(36, work.context);
    bytes.u32(40, work.stream);
    bytes.u32(44, work.correlation);
    bytes.u64(64, work.node);
    bytes.u32(72, work.graph);
    bytes.u64(88, 1);
    bytes.u32(96, work.source_graph);
    bytes.u64(104, work.source_node);
    bytes.0
}
