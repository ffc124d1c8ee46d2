//! The worker's side: from buffers that came back to records of the journal, and what is said and counted on the way.

use std::ptr;
use std::time::Instant;

use cupti_sys::Code;
use cupti_sys::constants::CBIDS_OF_LAUNCHES;

use super::buffers::{self, Full};
use super::calls::Calls;
use super::clock::{self, Rate};
use super::decode::{Seen, decode};
use super::join::{Decided, Join, Whose, Work};
use super::names::{NameId, Names};
use super::watch::Watch;
use crate::gpu::way::Output;
use journal::clock::{monotonic_ns, ticks};
use nccl_events::Kind;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{Copy, GpuRecord, Kernel, Way};
use nccl_events::id::EventId;

/// From this version (CUDA 13.4) on kernels tell of which captured node theirs is a clone.
const VERSION_SOURCE_NODES: u32 = 130_400;
/// From this version (CUDA 12.8) on copies tell how many they are.
const VERSION_COPY_COUNTS: u32 = 26;

/// A kernel or a copy that ran.
#[derive(Debug)]
enum Piece {
    Kernel(Kernel<NameId>, bool),
    Copy(Copy),
}

impl Work for Piece {
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

/// What is said once.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each thing that is said once"
)]
struct Said {
    refused: bool,
    disturbed: bool,
    flush_failed: bool,
    hangs: bool,
    foreign_buffers: bool,
    no_buffer: bool,
    dropped: bool,
    bad: bool,
    no_times: bool,
}

/// Whether this is the first time.
fn first(said: &mut bool) -> bool {
    !std::mem::replace(said, true)
}

/// All that one session reads.
pub(super) struct Reading {
    calls: Calls,
    version: u32,
    writes_all: bool,
    began: Instant,
    names: Names,
    join: Join<Piece>,
    decided: Vec<Decided<Piece>>,
    rate: Rate,
    watch: Watch,
    said: Said,
    taken_over: bool,
    /// Records since the watch last looked that only CUPTI as we set it up gives: not those of calls alone.
    records: u64,
    /// Launches that CUPTI was told of, and those of them whose work came or was given up.
    told: u64,
    settled: u64,
}

impl Reading {
    pub(super) fn new(calls: Calls, version: u32, writes_all: bool) -> Self {
        Self {
            calls,
            version,
            writes_all,
            began: Instant::now(),
            names: Names::default(),
            join: Join::new(),
            decided: Vec::new(),
            rate: Rate::default(),
            watch: Watch::default(),
            said: Said::default(),
            taken_over: false,
            records: 0,
            told: 0,
            settled: 0,
        }
    }

    /// CUPTI was told of so many more launches.
    pub(super) fn expect(&mut self, launches: u64) {
        self.told += launches;
        if launches > 0 {
            self.join.expect_ids();
        }
    }

    /// Whether there are launches whose work has not come.
    pub(super) const fn misses_launches(&self) -> bool {
        self.settled < self.told
    }

    /// Whether another user of CUPTI's has what was ours.
    pub(super) const fn is_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Records what CUPTI's clock shows.
    pub(super) fn sample_clock(&mut self, out: &mut dyn Output) {
        let Some(sample) = clock::sample(|| self.calls.timestamp_ns()) else {
            return;
        };
        out.record(sample.ticks, 0, &GpuRecord::Clock(sample.sample));
        if self.rate.is_foreign(monotonic_ns(), sample.sample.gpu_ns) {
            out.notice(
                Way::Cupti,
                "another component of the program has given CUPTI a clock of its own (torch.profiler does): GPU times \
                 are converted from it",
            );
        }
    }

    /// Reads the buffers that have come back.
    pub(super) fn read_all(&mut self, out: &mut dyn Output) {
        while let Some(full) = buffers::pool().take_full() {
            self.read(&full, out);
            self.write(out);
        }
    }

    fn read(&mut self, full: &Full<'_>, out: &mut dyn Output) {
        let bytes = full.bytes();
        if bytes.is_empty() {
            return;
        }
        let mut record = ptr::null_mut();
        let mut begin: Option<usize> = None;
        loop {
            // SAFETY: the buffer came back with these bytes and is this thread's; `record` is NULL or of this function's.
            let next = unsafe { self.calls.next_record(full.base(), bytes.len(), record) };
            let end = match next {
                Ok(next) => next.addr().wrapping_sub(full.base().addr()),
                Err(_) => bytes.len(),
            };
            // A record ends where the next one begins; so one that leads back, or out, is none.
            let is_in_order = match begin {
                Some(begin) => end > begin && end <= bytes.len(),
                None => end < bytes.len() || next.is_err(),
            };
            if !is_in_order {
                self.say_bad("a record that is not in its buffer", out);
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
                    self.say_bad(&code.to_string(), out);
                    return;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8], out: &mut dyn Output) {
        let now = self.began.elapsed();
        let Some(seen) = decode(bytes) else {
            self.say_bad("a record that ends too early", out);
            return;
        };
        if !matches!(seen, Seen::DriverCall { .. } | Seen::Other) {
            self.records += 1;
        }
        match seen {
            Seen::External { correlation, id } => {
                let is_of_many = EventId::from_raw(id).kind() == Kind::CeColl;
                let decided = &mut self.decided;
                self.join.call(now, correlation, id, is_of_many, decided);
            }
            Seen::DriverCall { correlation, cbid } => {
                if !CBIDS_OF_LAUNCHES.contains(&cbid) {
                    self.join.launches_nothing(correlation);
                }
            }
            Seen::Kernel(kernel) => {
                out.count(GpuCount::Kernels, 1);
                // SAFETY: the record's buffer is being read, so CUPTI's string is there.
                let name = unsafe { self.names.of_record(kernel.name) };
                let Some(mut kernel) = kernel.map_names(|_| Some(name)) else {
                    return;
                };
                if self.version < VERSION_SOURCE_NODES {
                    kernel.source_graph_node = 0;
                }
                let is_nccl = self.names.is_nccl(name);
                let piece = Piece::Kernel(kernel, is_nccl);
                let decided = &mut self.decided;
                self.join.work(now, kernel.correlation, piece, decided);
            }
            Seen::Copy(mut copy) => {
                out.count(GpuCount::Copies, 1);
                if self.version < VERSION_COPY_COUNTS {
                    copy.count = 1;
                }
                let decided = &mut self.decided;
                self.join
                    .work(now, copy.correlation, Piece::Copy(copy), decided);
            }
            Seen::Other => {}
        }
    }

    fn write(&mut self, out: &mut dyn Output) {
        for Decided { whose, work } in std::mem::take(&mut self.decided) {
            match work {
                Piece::Kernel(kernel, _) => self.write_kernel(whose, kernel, out),
                Piece::Copy(copy) => self.write_copy(whose, copy, out),
            }
        }
        let (matched, unmatched) = (self.join.take_matched(), self.join.take_unmatched());
        self.settled += matched + unmatched;
        out.count(GpuCount::Unmatched, unmatched);
    }

    fn write_kernel(&mut self, whose: Whose, kernel: Kernel<NameId>, out: &mut dyn Output) {
        let id = match whose {
            Whose::Launch(id) => id,
            Whose::Nccl => 0,
            Whose::Foreign if self.writes_all => 0,
            Whose::Foreign => return out.count(GpuCount::ForeignKernels, 1),
        };
        if !has_times(kernel.start_ns, kernel.end_ns) {
            return self.say_no_times(GpuCount::KernelsWithoutTimes, out);
        }
        let name = self.names.get(kernel.name);
        if let Some(kernel) = kernel.map_names(|_| Some(name)) {
            out.record(ticks(), id, &GpuRecord::Kernel(kernel));
        }
    }

    fn write_copy(&mut self, whose: Whose, copy: Copy, out: &mut dyn Output) {
        let Whose::Launch(id) = whose else {
            return out.count(GpuCount::ForeignCopies, 1);
        };
        if !has_times(copy.start_ns, copy.end_ns) {
            return self.say_no_times(GpuCount::CopiesWithoutTimes, out);
        }
        out.record(ticks(), id, &GpuRecord::Copy(copy));
    }

    /// After a flush: what became of the rest. `launches`: how many CUPTI was told of meanwhile.
    pub(super) fn look_around(&mut self, launches: u64, out: &mut dyn Output) {
        let now = self.began.elapsed();
        self.join.sweep(now, &mut self.decided);
        self.write(out);
        self.look_at_losses(out);
        let records = std::mem::take(&mut self.records);
        if self.watch.is_silent(now, launches, records) {
            self.taken_over = true;
            out.fault(
                Way::Cupti,
                "NCCL launches kernels and CUPTI gives no records of them: another component of the program has taken \
                 over CUPTI (torch.profiler?). Kernels from here on may be missing; run without it, or set \
                 NCCL_OTF2_GPU=events",
            );
        }
    }

    fn look_at_losses(&mut self, out: &mut dyn Output) {
        let foreign = buffers::pool().take_foreign();
        out.count(GpuCount::ForeignBuffers, foreign);
        if foreign > 0 {
            self.taken_over = true;
            if first(&mut self.said.foreign_buffers) {
                out.fault(
                    Way::Cupti,
                    "CUPTI gave us buffers of another component of the program (torch.profiler?): kernels may be missing \
                     here and there. Run without it, or set NCCL_OTF2_GPU=events",
                );
            }
        }
        let refused = buffers::pool().take_refused();
        out.count(GpuCount::NoBufferLeft, refused);
        if refused > 0 && first(&mut self.said.no_buffer) {
            out.fault(
                Way::Cupti,
                "CUPTI asked for more memory than it is given (512 MiB): kernels are missing",
            );
        }
        let dropped = self.calls.dropped();
        out.count(GpuCount::DroppedByCupti, dropped);
        if dropped > 0 && first(&mut self.said.dropped) {
            out.fault(
                Way::Cupti,
                &format!("CUPTI dropped {dropped} records: kernels are missing"),
            );
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, out: &mut dyn Output) {
        self.join.end(&mut self.decided);
        self.write(out);
        // Those of which CUPTI gave not even the call.
        out.count(GpuCount::Unfinished, self.told.saturating_sub(self.settled));
    }

    pub(super) fn say_refused(&mut self, code: Code, out: &mut dyn Output) {
        if first(&mut self.said.refused) {
            let remedy = code
                .remedy()
                .map_or(String::new(), |remedy| format!(": {remedy}"));
            out.fault(
                Way::Cupti,
                &format!("CUPTI does not take the ids of launches, {code}{remedy}; their kernels are not tied to them"),
            );
        }
    }

    pub(super) fn say_disturbed(&mut self, out: &mut dyn Output) {
        if first(&mut self.said.disturbed) {
            out.fault(
                Way::Cupti,
                "another component of the program uses the same kind of CUPTI's external ids (CUSTOM2): kernels may be \
                 tied to wrong launches, or to none",
            );
        }
    }

    pub(super) fn say_flushed(&mut self, code: Code, out: &mut dyn Output) {
        if !code.is_success() && first(&mut self.said.flush_failed) {
            let remedy = code
                .remedy()
                .map_or(String::new(), |remedy| format!(": {remedy}"));
            out.fault(
                Way::Cupti,
                &format!(
                    "CUPTI does not give its records back, {code}{remedy}; kernels may be missing"
                ),
            );
        }
    }

    pub(super) fn say_hangs(&mut self, out: &mut dyn Output) {
        if first(&mut self.said.hangs) {
            out.fault(
                Way::Cupti,
                "CUPTI has not given its records back in time (cuptiActivityFlushAll): it is not waited for, and kernels may be missing",
            );
        }
    }

    fn say_bad(&mut self, what: &str, out: &mut dyn Output) {
        out.count(GpuCount::BadRecords, 1);
        if first(&mut self.said.bad) {
            out.fault(
                Way::Cupti,
                &format!("CUPTI gave a buffer that cannot be read to its end: {what}; kernels may be missing"),
            );
        }
    }

    fn say_no_times(&mut self, count: GpuCount, out: &mut dyn Output) {
        out.count(count, 1);
        if first(&mut self.said.no_times) {
            out.fault(
                Way::Cupti,
                "CUPTI gave kernels or copies without times: they are counted and not written down",
            );
        }
    }
}

const fn has_times(start_ns: u64, end_ns: u64) -> bool {
    start_ns != 0 && end_ns >= start_ns
}
