//! Records as plain data.

use nccl_events::control::Switch;
use nccl_events::gpu::GpuRecord;
use nccl_events::range::RangeRecord;
use nccl_events::{Kind, Start, StateArgs};

/// The number of a string in the journal. Zero means "no string".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

impl Symbol {
    /// No string.
    pub const NONE: Self = Self(0);
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The slot that contains the record.
    pub slot: u16,
    /// The tick source's value when the record was written.
    pub ticks: u64,
    /// The event or context that the record is about; 0 if there is none.
    pub id: u64,
    /// The content.
    pub body: RecordBody,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields named after the event model or the clocks they hold")]
pub enum RecordBody {
    ThreadBegin {
        thread_id: u32,
        name: String,
    },
    ThreadEnd,
    ClockPair {
        monotonic_ns: u64,
        realtime_ns: u64,
        monotonic_raw_ns: u64,
        uncertainty_ticks: u64,
    },
    CommInit(CommRecord),
    CommKnown(CommRecord),
    CommFinalize {
        end_ticks: u64,
    },
    /// The selection of what is recorded changed.
    Switch(Switch),
    /// Starts that were not selected, by kind.
    NotSelected([u64; Kind::COUNT]),
    /// A record about GPUs, which also determines the meaning of the record's id.
    Gpu(GpuRecord<Symbol>),
    /// A record about a range, which also determines the meaning of the record's id.
    Range(RangeRecord<Symbol>),
    Start(Start<Symbol>),
    Stop,
    State {
        state: u32,
        args: StateArgs,
    },
}

/// The creation of a communicator. The record's ticks are those of the call's start.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of event::CommInit")]
pub struct CommRecord {
    pub end_ticks: u64,
    pub comm_id: u64,
    pub name: Symbol,
    pub nodes: i32,
    pub ranks: i32,
    pub rank: i32,
    pub table: u8,
    pub nccl_version: u32,
    /// Zero-based index among the communicators of the process with this id and size.
    pub repetition: u32,
}

/// Receives the records of a journal. Frequent records have fast paths: building a [`Record`] costs as much as reading.
pub trait Records {
    /// Takes any record.
    fn record(&mut self, record: Record);

    /// Takes an event's start.
    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        let body = RecordBody::Start(*start);
        self.record(Record { slot, ticks, id, body });
    }

    /// Takes an event's stop.
    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        self.record(Record { slot, ticks, id, body: RecordBody::Stop });
    }

    /// Takes a change of state.
    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, (state, args): (u32, StateArgs)) {
        self.record(Record { slot, ticks, id, body: RecordBody::State { state, args } });
    }
}

impl<F: FnMut(Record)> Records for F {
    fn record(&mut self, record: Record) {
        self(record);
    }
}
