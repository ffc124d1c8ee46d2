//! The worker's side: reads returned buffers, joins their records (`join`), and writes them to the output. Samples
//! CUPTI's clock (`clock`), and detects when no records come (`silence`).

use std::ptr;
use std::time::Instant;

use cupti_sys::CBIDS_OF_LAUNCHES;
use cupti_sys::Code;

mod clock;
mod decode;
mod join;
mod names;
mod reports;
mod silence;

use super::buffers::{self, Full};
use super::calls::Calls;
use crate::gpu::backend::Output;
use clock::Rate;
use decode::{Decoded, decode};
use join::{Join, Joined, Owner, Work};
use journal::clock::{monotonic_ns, ticks};
use names::{NameId, Names};
use nccl_events::Kind;
use nccl_events::gpu::{Backend as BackendKind, Copy, GpuCount, GpuRecord, Kernel};
use nccl_events::ids::EventId;
pub(super) use reports::Fault;
use reports::Reports;
use silence::Silence;

/// From this version (CUDA 13.4) on, kernel records name the captured node from which their own node was cloned.
const VERSION_SOURCE_NODES: u32 = 130_400;
/// From this version (CUDA 12.8) on, copy records have the number of copies.
const VERSION_COPY_COUNTS: u32 = 26;

#[derive(Debug)]
enum Piece {
    /// The flag is set for a kernel that is NCCL's by name.
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

pub(super) struct Reading {
    calls: Calls,
    version: u32,
    all_kernels: bool,
    began: Instant,
    names: Names,
    join: Join<Piece>,
    joined: Vec<Joined<Piece>>,
    rate: Rate,
    silence: Silence,
    pub(super) reports: Reports,
    is_taken_over: bool,
    /// Records since the last check that need the plugin's activity kinds; call records do not count.
    records: u64,
    /// `pushed`: launches whose ids CUPTI has. `settled`: launches whose kernels came or were given up.
    pushed: u64,
    settled: u64,
}

impl Reading {
    pub(super) fn new(calls: Calls, version: u32, all_kernels: bool) -> Self {
        Self {
            calls,
            version,
            all_kernels,
            began: Instant::now(),
            names: Names::default(),
            join: Join::new(),
            joined: Vec::new(),
            rate: Rate::default(),
            silence: Silence::default(),
            reports: Reports::default(),
            is_taken_over: false,
            records: 0,
            pushed: 0,
            settled: 0,
        }
    }

    pub(super) fn expect(&mut self, launches: u64) {
        self.pushed += launches;
        if launches > 0 {
            self.join.expect_ids();
        }
    }

    pub(super) const fn misses_launches(&self) -> bool {
        self.settled < self.pushed
    }

    pub(super) const fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    pub(super) fn sample_clock(&mut self, out: &mut dyn Output) {
        let Some(sample) = clock::sample(|| self.calls.timestamp_ns()) else {
            return;
        };
        out.record(sample.ticks, 0, &GpuRecord::Clock(sample.sample));
        if self.rate.is_foreign(monotonic_ns(), sample.sample.gpu_ns) {
            out.notice(
                BackendKind::Cupti,
                "another component of the program has given CUPTI a clock of its own (torch.profiler does): GPU times \
                 are converted from it",
            );
        }
    }

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
                let name = unsafe { self.names.of_record(kernel.name) };
                let Some(mut kernel) = kernel.map_names(|_| Some(name)) else {
                    return;
                };
                if self.version < VERSION_SOURCE_NODES {
                    kernel.source_graph_node = 0;
                }
                let piece = Piece::Kernel(kernel, self.names.is_nccl(name));
                self.join.work(now, kernel.correlation, piece, &mut self.joined);
            }
            Decoded::Copy(mut copy) => {
                out.count(GpuCount::Copies, 1);
                if self.version < VERSION_COPY_COUNTS {
                    copy.count = 1;
                }
                self.join.work(now, copy.correlation, Piece::Copy(copy), &mut self.joined);
            }
            Decoded::Other => {}
        }
    }

    fn write(&mut self, out: &mut dyn Output) {
        for Joined { owner, work } in std::mem::take(&mut self.joined) {
            match work {
                Piece::Kernel(kernel, _) => self.write_kernel(owner, kernel, out),
                Piece::Copy(copy) => self.write_copy(owner, copy, out),
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
    pub(super) fn check(&mut self, launches: u64, out: &mut dyn Output) {
        let now = self.began.elapsed();
        self.join.sweep(now, &mut self.joined);
        self.write(out);
        self.check_losses(out);
        let records = std::mem::take(&mut self.records);
        if self.silence.is_silent(now, launches, records) {
            self.is_taken_over = true;
            out.fault(
                BackendKind::Cupti,
                "NCCL launches kernels and CUPTI gives no records of them: another component of the program has taken \
                 over CUPTI (torch.profiler?). Kernels from here on may be missing; run without it, or set \
                 NCCL_OTF2_GPU=events",
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

    pub(super) fn end(&mut self, out: &mut dyn Output) {
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
