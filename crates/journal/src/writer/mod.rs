//! The recording side of the journal: a process's [`JournalWriter`] hands out [`SlotWriter`]s and their segments.

mod copy;
mod journal_writer;
mod lost;
mod mapping;
mod names;
mod repeat_filter;
mod retention;
mod shared_slot_writer;
mod slot;
mod slot_writer;
mod space;

pub use journal_writer::JournalWriter;
pub use lost::Lost;
pub use names::{PermanentName, PermanentText};
pub use shared_slot_writer::SharedSlotWriter;
pub use slot_writer::SlotWriter;
pub use space::{Retention, Stop, WriterOptions};
