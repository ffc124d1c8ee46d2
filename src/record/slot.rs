//! The calling thread's slot in the journal that is being recorded.

use std::sync::Arc;

use super::open_ranges::{self, OpenRanges};
use crate::host::left::ThreadCell;
use crate::host::process::thread_name;
use crate::host::shared::{Current, Share, Shares};
use crate::scorep;
use journal::writer::{JournalWriter, Lost, SlotWriter};

#[unsafe(link_section = ".data.hot")]
pub(super) static RECORDING: Current<Arc<JournalWriter>> = Current::none();

/// What every callback reads comes first.
#[repr(C)]
pub(super) struct Slot {
    /// Whether Score-P is shown the events. Stored here because callbacks read the slot anyway.
    pub(super) is_shown: bool,
    /// Absent if this thread could not get a slot: its events are then only counted.
    pub(super) slot_writer: Option<SlotWriter>,
    pub(super) writer: Arc<JournalWriter>,
}

impl Share for Slot {
    type Whole = Arc<JournalWriter>;
    type Kept = ThreadCell<OpenRanges>;
    const CURRENT: &'static Current<Self::Whole> = &RECORDING;

    fn of(writer: Self::Whole, open_ranges: &Self::Kept) -> Self {
        let mut slot_writer = writer.register(&thread_name()).ok();
        if let Some(slot_writer) = &mut slot_writer {
            open_ranges::repeat(open_ranges, slot_writer);
        }
        Self { is_shown: scorep::is_on(), slot_writer, writer }
    }

    fn was_left(&mut self) {
        match &mut self.slot_writer {
            Some(slot_writer) => slot_writer.was_left(),
            None => self.writer.count_loss(Lost::UNKNOWN),
        }
    }

    fn leave(self) {
        if let Some(slot_writer) = self.slot_writer {
            self.writer.retire(slot_writer);
        }
    }
}

#[unsafe(link_section = ".data.hot")]
pub(super) static SLOT: Shares<Slot> = Shares::new();
