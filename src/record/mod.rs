//! Appends events, and ranges of NVTX (`ranges`, `open_ranges`), to the calling thread's journal slot. Called from all
//! of NCCL's threads, including the network proxies and CUDA's host-callback thread: no lock, no allocation, no system
//! call after a thread's first event. A thread gets its slot with its first event and returns it when it ends; the next
//! thread takes the slot over.

use std::sync::Arc;

use crate::control::Answer;
use crate::control::steps::StepsOfThread;
use crate::host::threads;
use crate::record::ranges::{RECORDING, SLOT};
use crate::scorep::bridge;
use crate::{control, gpu};
use journal::clock::ticks;
use journal::part::LateCallbacks;
use journal::writer::{JournalWriter, LostRecord, SlotWriter};
use nccl_events::ids::EventId;
use nccl_events::{Body, Name, Start, State, Switch, event};

pub(crate) mod open_ranges;
pub(crate) mod ranges;

/// Records the start of an event and returns its id; [`EventId::NONE`] if this event is not being recorded.
#[inline]
pub fn start(event: &Start<Name<'_>>) -> EventId {
    if control::is_plain(event.body.kind()) { record_start(event) } else { considered_start(event) }
}

/// [`start`] for events that may be unwanted or must be counted.
fn considered_start(event: &Start<Name<'_>>) -> EventId {
    let steps = if control::steps::is_named() { ranges::steps() } else { StepsOfThread::default() };
    let verdict = control::consider(event, steps);
    if let Some((context, switch)) = verdict.switch {
        record_turn(context, &switch);
    }
    match verdict.answer {
        Answer::Record => record_start(event),
        Answer::RecordAlone => record_alone(*event),
        Answer::Refuse => EventId::NONE,
        Answer::StandIn => EventId::NOT_SELECTED,
    }
}

/// Records an event without its group, because the handle of the group stands for a group that is not recorded.
#[cold]
fn record_alone(mut event: Start<Name<'_>>) -> EventId {
    event.parent = 0;
    match &mut event.body {
        Body::Coll(coll) => coll.parent_group = 0,
        Body::P2p(p2p) => p2p.parent_group = 0,
        _ => {}
    }
    record_start(&event)
}

#[cold]
pub(crate) fn record_turn(context: u64, switch: &Switch) {
    let begin_ticks = ticks();
    with_slot_writer(LostRecord::Communicator, |slot_writer| {
        slot_writer.switch(begin_ticks, context, switch);
    });
}

#[inline]
fn record_start(event: &Start<Name<'_>>) -> EventId {
    let what = LostRecord::Start(event.body.kind());
    let id = on_slot(what, |slot, is_shown| {
        let id = match slot {
            Ok(slot_writer) => {
                panic_on_magic_event(&event.body);
                slot_writer.start(event)
            }
            Err(writer) => writer.slotless_id(event.body.kind()),
        };
        if *is_shown {
            bridge::started(event, id);
        }
        id
    });
    let id = id.unwrap_or(EventId::NONE);
    if let Some(stream) = event.body.stream_of_launch() {
        gpu::launch_begins(id, stream);
    }
    id
}

/// Records the end of an event. Ignores NULL handles: NCCL 2.23–2.25 stop events that they never started.
#[inline]
pub fn stop(event: u64) {
    if event != 0 && event != EventId::NOT_SELECTED.get() {
        on_slot(LostRecord::Stop(event), |slot, is_shown| {
            if let Ok(slot_writer) = slot {
                slot_writer.stop(event);
            }
            if *is_shown {
                bridge::stopped(event);
            }
        });
        gpu::event_ends(EventId::from_raw(event));
    }
}

/// Records a change of state. Ignores NULL handles.
#[inline]
pub fn state(state: &State) {
    if state.event != 0 {
        on_slot(LostRecord::State(state.event), |slot, is_shown| {
            if let Ok(slot_writer) = slot {
                slot_writer.state(state);
            }
            if *is_shown {
                bridge::changed(state);
            }
        });
    }
}

/// Runs `action` on the calling thread's slot if recording is on. Without a slot, counts `what` as lost.
#[inline]
pub(crate) fn with_slot_writer(what: LostRecord, action: impl FnOnce(&mut SlotWriter)) {
    on_slot(what, |slot, _is_shown| {
        if let Ok(slot_writer) = slot {
            action(slot_writer);
        }
    });
}

/// Runs `action` with the calling thread's slot, or without one, after counting the loss, with the journal writer; and
/// with a flag whether Score-P is shown the event. `None` if nothing is being recorded: `what` is counted as late.
#[inline]
fn on_slot<T>(what: LostRecord, action: impl FnOnce(Result<&mut SlotWriter, &JournalWriter>, &bool) -> T) -> Option<T> {
    let done = threads::with(&SLOT, |slot| match &mut slot.slot_writer {
        Some(slot_writer) => action(Ok(slot_writer), &slot.is_shown),
        None => {
            slot.writer.count_loss(what);
            action(Err(&slot.writer), &slot.is_shown)
        }
    });
    if done.is_none() {
        late(what);
    }
    done
}

#[cold]
fn late(what: LostRecord) {
    // Score-P must see the end of a region whose beginning it saw.
    if let LostRecord::Stop(event) = what
        && bridge::is_on()
    {
        bridge::stopped(event);
    }
    let missed = if is_on() { &ranges::UNRECORDED } else { &ranges::LATE };
    missed.add(what);
}

/// Counts in the journal what threads without a share of the recording have missed since the last call.
pub(crate) fn account_for_unrecorded(writer: &JournalWriter) {
    ranges::UNRECORDED.take(|what, count| {
        for _ in 0..count {
            writer.count_loss(what);
        }
    });
}

pub(crate) fn begin(writer: Arc<JournalWriter>) {
    open_ranges::forget_counts();
    writer.repeat_in_new_segments(ranges::repeat);
    RECORDING.begin(writer);
}

/// Whether anything is recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    RECORDING.is_on()
}

/// Ends the recording. Threads that are inside a callback finish it; later callbacks are counted as late.
pub(crate) fn end() {
    let writer = RECORDING.end();
    control::let_all_starts_through();
    if let Some(writer) = writer {
        account_for_unrecorded(&writer);
        writer.close();
    }
}

/// Returns the slot of the thread that ends the program.
pub(crate) fn return_slot() {
    SLOT.end();
}

/// Switches recording off for good, without taking a lock: for a forked child, and the guard after a panic.
pub(crate) fn disable() {
    RECORDING.disable();
}

/// Counts a communicator for which no recording could begin.
pub(crate) fn communicator_is_late() {
    ranges::LATE.add(LostRecord::Communicator);
}

/// Callbacks and communicators outside of any recording since the last call.
pub(crate) fn take_late() -> LateCallbacks {
    let mut late = LateCallbacks::default();
    for missed in [&ranges::LATE, &ranges::UNRECORDED] {
        missed.take(|what, count| match what {
            LostRecord::Start(kind) => *late.starts.entry(kind.name().to_owned()).or_default() += count,
            LostRecord::Stop(_) => late.stops += count,
            LostRecord::State(_) => late.states += count,
            LostRecord::Communicator => late.communicators += count,
        });
    }
    late
}

// A fault can be injected, in debug builds only, to prove that a panic in the built library reaches neither NCCL nor
// the job.

/// The event type that makes the recorder panic. NCCL's own types are single bits.
const MAGIC: u64 = 0xfa17;

/// Panics when NCCL reports an event of the magic type.
#[inline]
pub(crate) fn panic_on_magic_event(body: &Body<Name<'_>>) {
    if cfg!(debug_assertions) && matches!(body, Body::Unknown(event::Unknown { event_type: MAGIC })) {
        panic_as_planted();
    }
}

#[cold]
#[expect(clippy::panic, reason = "a test plants it; builds for users have none")]
fn panic_as_planted() {
    panic!("planted by an event of type {MAGIC:#x}");
}
