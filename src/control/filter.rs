//! The kinds being recorded: callbacks check them at every start, and the maintenance thread sets them.

use std::sync::atomic::{AtomicU32, Ordering};

use super::kinds::EVERY_KIND;
use super::named::StepsOfThread;
use super::refused;
use super::steps::{Answer, STEPS, Verdict};
use nccl_events::{Kind, Name, Start};

/// The kinds that are recorded without further checks.
#[unsafe(link_section = ".data.hot")]
static PLAIN: AtomicU32 = AtomicU32::new(EVERY_KIND);
/// The wanted kinds; if there are step ranges, wanted only inside these.
static WANTED: AtomicU32 = AtomicU32::new(EVERY_KIND);

/// Whether starts of this kind are recorded without further checks.
#[inline]
pub(crate) fn is_plain(kind: Kind) -> bool {
    PLAIN.load(Ordering::Relaxed) & (1 << kind as u32) != 0
}

/// Decides on a start that is not [`is_plain`], on a thread with these named steps. Counts it if it is not recorded.
pub(crate) fn consider(event: &Start<Name<'_>>, thread: StepsOfThread) -> Verdict {
    let kind = event.body.kind();
    let is_wanted = WANTED.load(Ordering::Relaxed) & (1 << kind as u32) != 0;
    let verdict = STEPS.decide(event, is_wanted, thread);
    if matches!(verdict.answer, Answer::Refuse | Answer::StandIn) {
        refused::count(kind);
    }
    verdict
}

/// Sets the wanted kinds, and derives the kinds that need no further checks.
pub(super) fn set(wanted: u32) {
    // Collectives are counted even if they are not recorded.
    let counted = 1 << STEPS.counted_kind() as u32;
    let plain = if STEPS.is_limited() { 0 } else { wanted & !counted };
    WANTED.store(wanted, Ordering::Relaxed);
    PLAIN.store(plain, Ordering::Relaxed);
}

/// Lets every start through: no recording is on, and starts are counted as late from now on.
pub(crate) fn end() {
    PLAIN.store(EVERY_KIND, Ordering::Relaxed);
}
