//! What the user wants of NVTX to have recorded, read when a binary makes its first call.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::control::steps;
use journal::clock;
use settings::{Config, NvtxChoice};

static CHOICE: AtomicU8 = AtomicU8::new(NvtxChoice::Off as u8);

/// What the user wants to have recorded.
pub(super) fn choice() -> NvtxChoice {
    match CHOICE.load(Ordering::Relaxed) {
        choice if choice == NvtxChoice::Auto as u8 => NvtxChoice::Auto,
        choice if choice == NvtxChoice::Nccl as u8 => NvtxChoice::Nccl,
        choice if choice == NvtxChoice::All as u8 => NvtxChoice::All,
        _ => NvtxChoice::Off,
    }
}

/// Whether ranges are wanted at all. NVTX then makes all its functions do nothing where this says no.
pub(super) fn begin() -> bool {
    let config = Config::from_environment();
    let wanted = if config.enabled { config.nvtx } else { NvtxChoice::Off };
    CHOICE.store(wanted as u8, Ordering::Relaxed);
    if matches!(wanted, NvtxChoice::Auto | NvtxChoice::All) {
        steps::begin_with_ranges(config.steps.name());
    }
    // Until a source is selected, ticks come from another clock.
    clock::select();
    wanted != NvtxChoice::Off
}
