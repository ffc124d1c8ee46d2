//! The counters of works that the kernel has begun and ended: NCCL makes its kernel-channel events of them.

use super::batch::{Batch, Kind};
use crate::clock::device_ns;
use crate::device_memory::Addr;
use crate::layout::{Layout, p2p};
use crate::prims::Env;

const SLOTS: u64 = 64;
const SLOT_LEN: usize = 16;
/// A slot with the phases of a work: counter, four timestamps.
const PHASE_SLOT_LEN: usize = 40;

fn slot(table: Addr, channel: usize, number: u64, len: usize) -> Addr {
    table.field((channel * SLOTS as usize + (number % SLOTS) as usize) * len)
}

pub(super) struct Counters<'a> {
    layout: &'a Layout,
    comm: Addr,
    channel: Addr,
    id: usize,
}

impl<'a> Counters<'a> {
    pub(super) fn new(env: &Env<'a>) -> Counters<'a> {
        Counters { layout: env.layout, comm: env.comm, channel: env.channel, id: env.channel_id }
    }

    fn profiled(batch: &Batch) -> impl Iterator<Item = usize> {
        let enabled = |i: &usize| {
            let work = &batch.works[*i];
            match batch.kind {
                Kind::P2p => work.get::<u8>(p2p::FLAGS) >> 6 & 1 == 1,
                // The device code reads the flag of each work as if the works were of the plain collective type.
                _ => work.get::<u8>(3) >> 7 & 1 == 1,
            }
        };
        (0..batch.works.len()).filter(enabled)
    }

    fn value(&self) -> u64 {
        self.layout.work_counter.map_or(0, |offset| self.channel.field(offset).read())
    }

    fn numbers(&self, batch: &Batch) -> Vec<u64> {
        let first = self.value() + 1;
        if self.layout.count_profiled_only {
            (first..).zip(Self::profiled(batch)).map(|(number, _)| number).collect()
        } else {
            Self::profiled(batch).map(|i| first + i as u64).collect()
        }
    }

    fn note(&self, table: usize, batch: &Batch) {
        let table = self.comm.field(table).follow();
        if table.is_null() {
            return;
        }
        if self.layout.profiler_slots {
            for number in self.numbers(batch) {
                let slot = slot(table, self.id, number, SLOT_LEN);
                slot.field(8).store(device_ns());
                slot.store(number);
            }
        } else {
            table.field(8 * self.id).store(self.value() + batch.works.len() as u64);
        }
    }

    pub(super) fn begin(&self, batch: &Batch) {
        if let Some(table) = self.layout.work_started {
            self.note(table, batch);
        }
    }

    /// The host waits for this counter too where phases are asked for. The ring and tree kernels have none, so the
    /// timestamps stay zero.
    fn phases(&self, table: usize, batch: &Batch) {
        let table = self.comm.field(table).follow();
        if !table.is_null() {
            for number in self.numbers(batch) {
                slot(table, self.id, number, PHASE_SLOT_LEN).store(number);
            }
        }
    }

    pub(super) fn end(&self, batch: &Batch) {
        if let Some(table) = self.layout.work_phases {
            self.phases(table, batch);
        }
        if let Some(table) = self.layout.work_completed {
            self.note(table, batch);
        }
        if let Some(offset) = self.layout.work_counter {
            let counted =
                if self.layout.count_profiled_only { Self::profiled(batch).count() } else { batch.works.len() };
            self.channel.field(offset).write(self.value() + counted as u64);
        }
    }
}
