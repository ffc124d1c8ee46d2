//! The worker's side of CUPTI: reads returned buffers, decodes their records by fixed offsets, joins them (`join`), and
//! writes them to the output. Copies the names of kernels, samples CUPTI's clock, and detects when no records come
//! (`join`).

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ptr;
use std::time::{Duration, Instant};

use crate::gpu::cupti::buffers;
use crate::gpu::cupti::buffers::{Calls, FullBuffer};
use crate::gpu::cupti::join::{BuffersMissing, Join, JoinedWork, Owner, Reports, Work};
use crate::gpu::output::Output;
use cupti_sys::Code;
use cupti_sys::constants::{
    CBIDS_OF_LAUNCHES, EXTERNAL_CUSTOM2, KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION, KIND_MEMCPY,
    KIND_MEMCPY2,
};
use cupti_sys::record::{api, copy, external, kernel, peer_copy};
use journal::clock::{monotonic_ns, ticks};
use nccl_events::gpu::{ALL_DEVICES, Backend as BackendKind, ClockSample, Copy, GpuClock, GpuCount, GpuRecord, Kernel};
use nccl_events::ids::EventId;
use nccl_events::{Kind, Name};

pub(crate) use crate::gpu::cupti::join::Fault;

/// From this version (CUDA 13.4) on, kernel records name the captured node from which their own node was cloned.
const VERSION_SOURCE_NODES: u32 = 130_400;
/// From this version (CUDA 12.8) on, copy records have the number of copies.
const VERSION_COPY_COUNTS: u32 = 26;

#[derive(Debug)]
enum WorkRecord {
    /// The flag is set for a kernel that is NCCL's by name.
    Kernel(Kernel<NameId>, bool),
    Copy(Copy),
}

impl Work for WorkRecord {
    fn is_nccl_by_name(&self) -> bool {
        matches!(self, Self::Kernel(_, true))
    }

    fn is_of_graph(&self) -> bool {
        match self {
            Self::Kernel(kernel, _) => kernel.graph_node != 0,
            Self::Copy(copy) => copy.graph_node != 0,
        }
    }
}

pub(crate) struct RecordReader {
    calls: Calls,
    version: u32,
    all_kernels: bool,
    began: Instant,
    names: Names,
    join: Join<WorkRecord>,
    joined: Vec<JoinedWork<WorkRecord>>,
    rate: Rate,
    buffers_missing: BuffersMissing,
    pub(crate) reports: Reports,
    is_taken_over: bool,
    /// Records since the last check that need the plugin's activity kinds; call records do not count.
    records: u64,
    /// `pushed`: launches whose ids CUPTI has. `settled`: launches whose kernels came or were given up.
    pushed: u64,
    settled: u64,
}

impl RecordReader {
    pub(crate) fn new(calls: Calls, version: u32, all_kernels: bool) -> Self {
        Self {
            calls,
            version,
            all_kernels,
            began: Instant::now(),
            names: Names::default(),
            join: Join::new(),
            joined: Vec::new(),
            rate: Rate::default(),
            buffers_missing: BuffersMissing::default(),
            reports: Reports::default(),
            is_taken_over: false,
            records: 0,
            pushed: 0,
            settled: 0,
        }
    }

    pub(crate) fn expect(&mut self, launches: u64) {
        self.pushed += launches;
        if launches > 0 {
            self.join.expect_ids();
        }
    }

    pub(crate) const fn misses_launches(&self) -> bool {
        self.settled < self.pushed
    }

    pub(crate) const fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    pub(crate) fn sample_clock(&mut self, out: &mut dyn Output) {
        let Some(sample) = sample(|| self.calls.timestamp_ns()) else {
            return;
        };
        out.record(sample.ticks, 0, &GpuRecord::Clock(sample.sample));
        if self.rate.is_foreign(monotonic_ns(), sample.sample.gpu_ns) {
            out.notice(
                BackendKind::Cupti,
                "another component of the program has given CUPTI its own clock (as torch.profiler does): GPU times \
                are converted from that clock",
            );
        }
    }

    pub(crate) fn read_all(&mut self, out: &mut dyn Output) {
        while let Some(full) = buffers::pool().take_full() {
            self.read(&full, out);
            self.write(out);
        }
    }

    fn read(&mut self, full: &FullBuffer<'_>, out: &mut dyn Output) {
        let bytes = full.bytes();
        if bytes.is_empty() {
            return;
        }
        let mut record = ptr::null_mut();
        let mut begin: Option<usize> = None;
        loop {
            // SAFETY: CUPTI returned the buffer with these bytes, and only this thread uses it; `record` is NULL or was
            // returned by this function for the same buffer.
            let next = unsafe { self.calls.next_record(full.base(), bytes.len(), record) };
            let end = match next {
                Ok(next) => next.addr().wrapping_sub(full.base().addr()),
                Err(_) => bytes.len(),
            };
            // A record ends where the next one begins, which must lie behind this one and inside of the buffer.
            let is_in_order = match begin {
                Some(begin) => end > begin && end <= bytes.len(),
                None => end < bytes.len() || next.is_err(),
            };
            if !is_in_order {
                self.bad_record("a record that is not in its buffer", out);
                return;
            }
            if let Some(begin) = begin
                && let Some(record) = bytes.get(begin..end)
            {
                self.take(record, out);
            }
            match next {
                Ok(next) => (record, begin) = (next, Some(end)),
                Err(Code::MAX_LIMIT_REACHED) => return,
                Err(code) => {
                    self.bad_record(&code.to_string(), out);
                    return;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8], out: &mut dyn Output) {
        let now = self.began.elapsed();
        let Some(decoded) = decode(bytes) else {
            self.bad_record("a record that ends too early", out);
            return;
        };
        if !matches!(decoded, Decoded::DriverCall { .. } | Decoded::Other) {
            self.records += 1;
        }
        match decoded {
            Decoded::External { correlation, id } => {
                let has_many = EventId::from_raw(id).kind() == Kind::CeColl;
                self.join.call(now, correlation, id, has_many, &mut self.joined);
            }
            Decoded::DriverCall { correlation, cbid } => {
                if !CBIDS_OF_LAUNCHES.contains(&cbid) {
                    self.join.launches_nothing(correlation);
                }
            }
            Decoded::Kernel(kernel) => {
                out.count(GpuCount::Kernels, 1);
                // SAFETY: the record's buffer is being read, so CUPTI's string still exists.
                let name = unsafe { self.names.copy_name(kernel.name) };
                let Some(mut kernel) = kernel.map_names(|_| Some(name)) else {
                    return;
                };
                if self.version < VERSION_SOURCE_NODES {
                    kernel.source_graph_node = 0;
                }
                let piece = WorkRecord::Kernel(kernel, self.names.is_nccl(name));
                self.join.work(now, kernel.correlation, piece, &mut self.joined);
            }
            Decoded::Copy(mut copy) => {
                out.count(GpuCount::Copies, 1);
                if self.version < VERSION_COPY_COUNTS {
                    copy.count = 1;
                }
                self.join.work(now, copy.correlation, WorkRecord::Copy(copy), &mut self.joined);
            }
            Decoded::Other => {}
        }
    }

    fn write(&mut self, out: &mut dyn Output) {
        for JoinedWork { owner, work } in std::mem::take(&mut self.joined) {
            match work {
                WorkRecord::Kernel(kernel, _) => self.write_kernel(owner, kernel, out),
                WorkRecord::Copy(copy) => self.write_copy(owner, copy, out),
            }
        }
        let (matched, unmatched) = (self.join.take_matched(), self.join.take_unmatched());
        self.settled += matched + unmatched;
        out.count(GpuCount::Unmatched, unmatched);
    }

    fn write_kernel(&mut self, owner: Owner, kernel: Kernel<NameId>, out: &mut dyn Output) {
        let id = match owner {
            Owner::Launch(id) => id,
            Owner::Nccl => 0,
            Owner::Foreign if self.all_kernels => 0,
            Owner::Foreign => return out.count(GpuCount::ForeignKernels, 1),
        };
        if !has_times(kernel.start_ns, kernel.end_ns) {
            return self.no_times(GpuCount::KernelsWithoutTimes, out);
        }
        let name = self.names.get(kernel.name);
        if let Some(kernel) = kernel.map_names(|_| Some(name)) {
            out.record(ticks(), id, &GpuRecord::Kernel(kernel));
        }
    }

    fn write_copy(&mut self, owner: Owner, copy: Copy, out: &mut dyn Output) {
        let Owner::Launch(id) = owner else {
            return out.count(GpuCount::ForeignCopies, 1);
        };
        if !has_times(copy.start_ns, copy.end_ns) {
            return self.no_times(GpuCount::CopiesWithoutTimes, out);
        }
        out.record(ticks(), id, &GpuRecord::Copy(copy));
    }

    /// After a flush: gives up what has waited long enough, and checks for losses. `launches`: the number of launches
    /// whose ids CUPTI got since the last check.
    pub(crate) fn check(&mut self, launches: u64, out: &mut dyn Output) {
        let now = self.began.elapsed();
        self.join.sweep(now, &mut self.joined);
        self.write(out);
        self.check_losses(out);
        let records = std::mem::take(&mut self.records);
        if self.buffers_missing.is_silent(now, launches, records) {
            self.is_taken_over = true;
            out.fault(
                BackendKind::Cupti,
                "NCCL launches kernels but CUPTI returns no records of them: another component of the program has \
                taken over CUPTI (torch.profiler?). Kernels from here on may be missing; run without that component, \
                or set NCCL_OTF2_GPU=events",
            );
        }
    }

    fn check_losses(&mut self, out: &mut dyn Output) {
        let foreign = buffers::pool().take_foreign();
        out.count(GpuCount::ForeignBuffers, foreign);
        if foreign > 0 {
            self.is_taken_over = true;
            self.reports.once(&Fault::ForeignBuffers, out);
        }
        let refused = buffers::pool().take_refused();
        out.count(GpuCount::NoBufferLeft, refused);
        if refused > 0 {
            self.reports.once(&Fault::NoBuffer, out);
        }
        match self.calls.dropped() {
            Ok(0) => {}
            Ok(dropped) => {
                out.count(GpuCount::DroppedByCupti, dropped);
                self.reports.once(&Fault::Dropped(dropped), out);
            }
            Err(code) => self.reports.once(&Fault::DroppedUnknown(code), out),
        }
    }

    pub(crate) fn end(&mut self, out: &mut dyn Output) {
        self.join.end(&mut self.joined);
        self.write(out);
        // Includes launches without any record.
        out.count(GpuCount::Unfinished, self.pushed.saturating_sub(self.settled));
    }

    fn bad_record(&mut self, what: &str, out: &mut dyn Output) {
        out.count(GpuCount::BadRecords, 1);
        self.reports.once(&Fault::BadRecord(what.to_owned()), out);
    }

    fn no_times(&mut self, count: GpuCount, out: &mut dyn Output) {
        out.count(count, 1);
        self.reports.once(&Fault::NoTimes, out);
    }
}

const fn has_times(start_ns: u64, end_ns: u64) -> bool {
    start_ns != 0 && end_ns >= start_ns
}

/// The address of a kernel's name in CUPTI's memory; 0 if there is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameAddress(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A CUDA call was made under an id of the plugin.
    External {
        correlation: u32,
        id: u64,
    },
    DriverCall {
        correlation: u32,
        cbid: u32,
    },
    Kernel(Kernel<NameAddress>),
    Copy(Copy),
    Other,
}

/// Decodes a record; `None` if the record is too short for its fields.
pub(crate) fn decode(bytes: &[u8]) -> Option<Decoded> {
    Some(match cupti_sys::record::KIND.read(bytes)? {
        KIND_EXTERNAL_CORRELATION => {
            if external::EXTERNAL_KIND.read(bytes)? != EXTERNAL_CUSTOM2 {
                return Some(Decoded::Other);
            }
            Decoded::External { correlation: external::CORRELATION.read(bytes)?, id: external::EXTERNAL.read(bytes)? }
        }
        KIND_DRIVER => Decoded::DriverCall { correlation: api::CORRELATION.read(bytes)?, cbid: api::CBID.read(bytes)? },
        KIND_CONCURRENT_KERNEL => Decoded::Kernel(kernel_of(bytes)?),
        KIND_MEMCPY => Decoded::Copy(copy_of(bytes)?),
        KIND_MEMCPY2 => Decoded::Copy(peer_copy_of(bytes)?),
        _ => Decoded::Other,
    })
}

fn kernel_of(bytes: &[u8]) -> Option<Kernel<NameAddress>> {
    Some(Kernel {
        correlation: kernel::CORRELATION.read(bytes)?,
        device: kernel::DEVICE.read(bytes)?,
        context: kernel::CONTEXT.read(bytes)?,
        stream: kernel::STREAM.read(bytes)?,
        start_ns: kernel::START.read(bytes)?,
        end_ns: kernel::END.read(bytes)?,
        grid: [kernel::GRID_X.read(bytes)?, kernel::GRID_Y.read(bytes)?, kernel::GRID_Z.read(bytes)?],
        block: [kernel::BLOCK_X.read(bytes)?, kernel::BLOCK_Y.read(bytes)?, kernel::BLOCK_Z.read(bytes)?],
        static_shared_bytes: kernel::STATIC_SHARED_BYTES.read(bytes)?,
        dynamic_shared_bytes: kernel::DYNAMIC_SHARED_BYTES.read(bytes)?,
        registers_per_thread: kernel::REGISTERS_PER_THREAD.read(bytes)?,
        graph: kernel::GRAPH.read(bytes)?,
        graph_node: kernel::GRAPH_NODE.read(bytes)?,
        // Records have this field from 13.4 on. `bytes` ends with the record.
        source_graph_node: kernel::SOURCE_GRAPH_NODE.read(bytes).unwrap_or(0),
        name: NameAddress(kernel::NAME.read(bytes)?),
    })
}

/// Decodes a copy from any kind of record that has the usual fields.
macro_rules! copy {
    ($record:ident, $bytes:ident, $count:expr, $source_device:expr, $destination_device:expr) => {
        Copy {
            correlation: $record::CORRELATION.read($bytes)?,
            device: $record::DEVICE.read($bytes)?,
            context: $record::CONTEXT.read($bytes)?,
            stream: $record::STREAM.read($bytes)?,
            start_ns: $record::START.read($bytes)?,
            end_ns: $record::END.read($bytes)?,
            bytes: $record::BYTES.read($bytes)?,
            kind: $record::COPY_KIND.read($bytes)?,
            source_kind: $record::SOURCE_KIND.read($bytes)?,
            destination_kind: $record::DESTINATION_KIND.read($bytes)?,
            count: $count,
            graph_node: $record::GRAPH_NODE.read($bytes)?,
            source_device: $source_device,
            destination_device: $destination_device,
        }
    };
}

fn copy_of(bytes: &[u8]) -> Option<Copy> {
    let device = copy::DEVICE.read(bytes)?;
    // Up to 12.7 a record has no count and describes one copy.
    let count = u32::try_from(copy::COUNT.read(bytes).unwrap_or(1).max(1)).unwrap_or(u32::MAX);
    Some(copy!(copy, bytes, count, device, device))
}

fn peer_copy_of(bytes: &[u8]) -> Option<Copy> {
    let [source, destination] =
        [peer_copy::SOURCE_DEVICE, peer_copy::DESTINATION_DEVICE].map(|field| field.read(bytes));
    Some(copy!(peer_copy, bytes, 1, source?, destination?))
}

/// Substrings of the mangled names of NCCL's kernels, in all releases with a profiler interface.
const NCCL_KERNELS: [&[u8]; 3] = [b"ncclDevKernel_", b"ncclSymkDevKernel_", b"oneRankReduce"];
/// The limit on stored names, because a job can generate any number of kernels.
const MOST: usize = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameId(usize);

#[derive(Debug)]
struct KernelName {
    text: CString,
    is_nccl: bool,
}

/// Names of kernels, copied from CUPTI's strings.
#[derive(Debug, Default)]
pub(crate) struct Names {
    all: Vec<KernelName>,
    ids: HashMap<CString, NameId>,
}

impl Names {
    /// No name: CUPTI gave none, or too many names are stored.
    pub(crate) const NONE: NameId = NameId(usize::MAX);

    /// Copies the name of a record.
    ///
    /// # Safety
    /// The address is 0, or points to a string in CUPTI's memory that belongs to a record whose buffer is being read.
    pub(crate) unsafe fn copy_name(&mut self, address: NameAddress) -> NameId {
        #[expect(clippy::cast_possible_truncation, reason = "an address: pointers have 64 bits where CUDA is")]
        let pointer = ptr::with_exposed_provenance::<std::ffi::c_char>(address.0 as usize);
        if pointer.is_null() {
            return Self::NONE;
        }
        // SAFETY: not NULL, so a NUL-terminated string (contract).
        let text = unsafe { CStr::from_ptr(pointer) };
        self.keep(text)
    }

    fn keep(&mut self, text: &CStr) -> NameId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        if self.all.len() >= MOST {
            return Self::NONE;
        }
        let id = NameId(self.all.len());
        let is_nccl = is_nccl(text.to_bytes());
        self.all.push(KernelName { text: text.to_owned(), is_nccl });
        self.ids.insert(text.to_owned(), id);
        id
    }

    pub(crate) fn is_nccl(&self, id: NameId) -> bool {
        self.all.get(id.0).is_some_and(|known| known.is_nccl)
    }

    pub(crate) fn get(&self, id: NameId) -> Name<'_> {
        let known = self.all.get(id.0);
        known.map_or(Name::NONE, |known| Name::from_cstr(&known.text))
    }
}

fn is_nccl(name: &[u8]) -> bool {
    NCCL_KERNELS.iter().any(|part| name.windows(part.len()).any(|window| window == *part))
}

// The times in CUPTI's records are on CUPTI's clock. It is `CLOCK_REALTIME`, unless another tool in the process
// replaces it, at any time: PyTorch's profiler does. So the plugin assumes nothing, and samples the clock as long as
// the session lasts.

/// A clock whose rate differs by more than this is not a system clock.
const ODD_PPM: u64 = 1000;
/// Samples closer than this give no useful rate.
const SHORTEST: Duration = Duration::from_millis(900);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) ticks: u64,
    pub(crate) sample: ClockSample,
}

/// Takes several samples and returns the best; `None` if CUPTI does not answer.
pub(crate) fn sample(timestamp_ns: impl Fn() -> Option<u64>) -> Option<Sample> {
    let mut best: Option<Sample> = None;
    for _ in 0..5 {
        let before = ticks();
        let gpu_ns = timestamp_ns()?;
        let half = ticks().saturating_sub(before).div_ceil(2);
        let is_better = best.is_none_or(|best| half < best.sample.uncertainty_ticks);
        if is_better {
            best = Some(Sample {
                ticks: before + half,
                sample: ClockSample { clock: GpuClock::Cupti, ordinal: ALL_DEVICES, gpu_ns, uncertainty_ticks: half },
            });
        }
    }
    best
}

#[derive(Debug, Default)]
pub(crate) struct Rate {
    last: Option<(u64, u64)>,
    odd_in_a_row: u8,
    is_reported: bool,
}

impl Rate {
    /// Compares a reading with one of `CLOCK_MONOTONIC`. True once, when the rate shows that the clock was replaced.
    /// This needs two odd rates, because a step of the system clock causes one.
    pub(crate) fn is_foreign(&mut self, monotonic_ns: u64, gpu_ns: u64) -> bool {
        let Some((last_monotonic, last_gpu)) = self.last else {
            self.last = Some((monotonic_ns, gpu_ns));
            return false;
        };
        let passed = monotonic_ns.saturating_sub(last_monotonic);
        if u128::from(passed) < SHORTEST.as_nanos() {
            return false;
        }
        self.last = Some((monotonic_ns, gpu_ns));
        let shown = i128::from(gpu_ns) - i128::from(last_gpu);
        let off = (shown - i128::from(passed)).unsigned_abs();
        if off > u128::from(passed) * u128::from(ODD_PPM) / 1_000_000 {
            self.odd_in_a_row = self.odd_in_a_row.saturating_add(1);
        } else {
            self.odd_in_a_row = 0;
        }
        let is_odd = self.odd_in_a_row >= 2 && !self.is_reported;
        self.is_reported |= is_odd;
        is_odd
    }
}

#[cfg(test)]
mod tests {
    mod decode {
        use crate::gpu::cupti::records::*;

        #[test]
        fn ids_of_other_tools_are_ignored() {
            let record = |external_kind: u32| {
                let mut bytes = [0; 24];
                for (at, word) in [(0, KIND_EXTERNAL_CORRELATION), (4, external_kind), (8, 7), (16, 9)] {
                    bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
                }
                decode(&bytes)
            };
            assert_eq!(record(3), Some(Decoded::Other));
            assert_eq!(record(5), Some(Decoded::External { correlation: 9, id: 7 }));
        }
    }

    mod names {
        use crate::gpu::cupti::records::*;

        #[test]
        fn kernels_of_nccl_are_known_by_their_names() {
            for name in [
                "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                "ncclSymkDevKernel_AllGather_LL",
                "_Z13oneRankReduceI7FuncSumIfEEvPvS2_mmb",
            ] {
                assert!(is_nccl(name.as_bytes()), "{name}");
            }
            for name in ["", "ncclDev", "_Z6kernelv", "ampere_sgemm_128x64_nn"] {
                assert!(!is_nccl(name.as_bytes()), "{name}");
            }
        }

        #[test]
        fn names_are_kept_once_and_their_number_is_limited() {
            let mut names = Names::default();
            let first = names.keep(c"ncclDevKernel_X");
            assert!(names.is_nccl(first));
            assert_eq!(names.get(first).bytes(), b"ncclDevKernel_X");
            // SAFETY: the address is 0.
            let none = unsafe { names.copy_name(NameAddress(0)) };
            assert!(names.get(none).is_none());
            for number in 0..MOST + 5 {
                names.keep(&CString::new(format!("k{number}")).unwrap());
            }
            assert_eq!(names.all.len(), MOST);
            assert_eq!(names.keep(c"ncclDevKernel_X"), first);
        }
    }

    mod clock {
        use crate::gpu::cupti::records::*;

        const SECOND: u64 = 1_000_000_000;

        #[test]
        fn only_a_clock_with_another_rate_is_reported_and_once() {
            let step = |n| if n >= 3 { 5 * SECOND } else { 0 };
            // NTP slews by at most 500 ppm.
            type Clock<'a> = &'a dyn Fn(u64) -> u64;
            let clocks: [(&str, Clock<'_>, &[u64]); 3] = [
                ("another rate", &|n| n * SECOND * 29 / 10, &[2]),
                ("a step of the system's clock", &|n| n * SECOND + step(n), &[]),
                ("a slewed clock", &|n| n * SECOND * 10_005 / 10_000, &[]),
            ];
            for (what, clock, expected) in clocks {
                let mut rate = Rate::default();
                let reported: Vec<u64> = (0..8).filter(|&n| rate.is_foreign(n * SECOND, clock(n))).collect();
                assert_eq!(reported, expected, "{what}");
            }
        }

        #[test]
        fn the_shortest_reading_counts() {
            let calls = std::cell::Cell::new(0);
            let sample = sample(|| {
                calls.set(calls.get() + 1);
                if calls.get() != 3 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Some(calls.get())
            })
            .unwrap();
            assert_eq!(sample.sample.gpu_ns, 3);
            assert!(super::super::sample(|| None).is_none());
        }
    }
}
