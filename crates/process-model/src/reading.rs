//! Reads a journal's records into tables.

use journal::format::{Record, RecordBody, Records, Symbol};
use journal::reader::{Error, Journal, Outcome};
use nccl_events::gpu::GpuRecord;
use nccl_events::{Start, StateArgs};
use tables::builder::TableBuilder;

/// Reads a journal without the events and GPU work before `ticks`; with all ranges, which can be open then.
pub fn read_since(journal: Journal, ticks: u64) -> Result<(TableBuilder, Outcome), Error> {
    let mut since = Since { ticks, builder: TableBuilder::default() };
    let outcome = journal.read(&mut since)?;
    Ok((since.builder, outcome))
}

/// Drops events and GPU work before a time, and passes on all other records.
struct Since {
    ticks: u64,
    builder: TableBuilder,
}

impl Records for Since {
    fn record(&mut self, record: Record) {
        let is_work = matches!(
            record.body,
            RecordBody::Gpu(GpuRecord::Kernel(_) | GpuRecord::Copy(_) | GpuRecord::LaunchTime(_))
                | RecordBody::Start(_)
                | RecordBody::Stop
                | RecordBody::State { .. }
        );
        if record.ticks >= self.ticks || !is_work {
            self.builder.record(record);
        }
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        if ticks >= self.ticks {
            self.builder.start(slot, ticks, id, start);
        }
    }

    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        if ticks >= self.ticks {
            self.builder.stop(slot, ticks, id);
        }
    }

    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        if ticks >= self.ticks {
            self.builder.state(slot, ticks, id, state);
        }
    }
}
