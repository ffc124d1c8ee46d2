//! What NCCL does, shown live in a measurement of Score-P that runs in the same process (`docs/SCOREP.md`).
//!
//! ```text
//! record::{start, stop, state} ─── shown? ─┬ calls       regions on the calling thread, strictly nested
//!                                           └ operations  a ring of what runs asynchronously
//!                        a thread that Score-P knows ── drain ── one accelerator location of the process
//! ```
//!
//! An addition: our own journal is written first and whatever happens here. Score-P is found by `dlsym` at run time,
//! never linked and never loaded. It ends the program when it is called wrongly: on a thread that it does not know,
//! before or after its measurement, with time that goes back. So each call of it needs a [`guard::Measured`], which
//! only a thread gets that may call.

use nccl_events::event;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::config::ScorepMode;
use journal::clock;
use nccl_events::id::EventId;
use nccl_events::{Body, CommInit, Kind, Name, Start, State, state};

mod calls;
mod drain;
mod guard;
mod index;
mod operations;
mod presence;
mod regions;
pub mod report;
mod setup;
pub mod substrate;
mod symbols;
mod timer;

use calls::Call;
use drain::Drain;
use guard::{Measured, Refusal};
use journal::part::scorep::ScorepReport;
use operations::{Facts, Operations};
use presence::{Absence, Presence, Tier};
use report::{Count, Counts};
use setup::Ready;

/// Nothing is shown to Score-P.
const OFF: u8 = 0;
/// Everything is.
const ON: u8 = 1;
/// Recording has ended: calls that are open are closed, nothing begins.
const OVER: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(OFF);
/// Made once: Score-P does not begin twice in a process either.
static BRIDGE: OnceLock<Bridge> = OnceLock::new();

/// How long the end of a recording, or of the program, waits for a thread that forwards something.
const PATIENCE: Duration = Duration::from_secs(2);

struct Bridge {
    presence: Presence,
    operations: Operations,
    counts: Counts,
    /// What Score-P gave us, once a thread that it knows could ask for it.
    ready: OnceLock<Ready>,
    setting_up: Mutex<()>,
    drain: Mutex<Drain>,
}

/// Whether what is recorded is to be shown. Threads ask when they begin to record.
pub(crate) fn is_on() -> bool {
    MODE.load(Ordering::Relaxed) != OFF
}

/// What a session says about Score-P when it begins.
pub(crate) enum Beginning {
    /// There is nothing to say.
    Silent,
    /// Which way calls and operations go.
    On(String),
    /// What was asked for and cannot be.
    Refused(String),
}

impl Beginning {
    fn without(mode: ScorepMode, absence: &Absence) -> Self {
        match (mode, absence) {
            (ScorepMode::On, absence) => Self::Refused(format!("NCCL_OTF2_SCOREP=on: {absence}")),
            (_, Absence::Incomplete(_)) => Self::On(absence.to_string()),
            (_, Absence::NotThere) => Self::Silent,
        }
    }
}

/// A recording begins.
pub(crate) fn begin(mode: ScorepMode) -> Beginning {
    if mode == ScorepMode::Off {
        return Beginning::Silent;
    }
    let bridge = match BRIDGE.get() {
        Some(bridge) => bridge,
        None => match presence::probe() {
            Ok(presence) => BRIDGE.get_or_init(|| Bridge::new(presence)),
            Err(absence) => return Beginning::without(mode, &absence),
        },
    };
    bridge.counts.reset();
    MODE.store(ON, Ordering::Release);
    // Better here than in a callback; where this thread may not ask, the first that may does.
    if let Ok(measured) = bridge.here() {
        bridge.set_up(&measured);
    }
    Beginning::On(bridge.describe())
}

/// A communicator begins.
pub(crate) fn communicator(context: u64, comm: &CommInit<'_>) {
    if let Some(bridge) = current() {
        bridge.drain.lock().communicator(context, comm.comm_id);
    }
}

/// A recording has ended: what became of everything, if Score-P was there.
pub(crate) fn end() -> Option<ScorepReport> {
    let bridge = current()?;
    MODE.store(OVER, Ordering::Release);
    if let Ok(measured) = bridge.here() {
        bridge.set_up(&measured);
        bridge.drain(&measured, Depth::Everything);
    }
    bridge
        .counts
        .set(Count::OperationsWaiting, bridge.operations.waiting());
    Some(report::report(bridge.presence.name(), &bridge.counts))
}

/// Switches everything off at once: for a forked child.
pub(crate) fn disable() {
    MODE.store(OFF, Ordering::Release);
}

fn current() -> Option<&'static Bridge> {
    is_on().then(|| BRIDGE.get()).flatten()
}

/// An event has started, and is recorded.
#[cold]
pub(crate) fn started(event: &Start<Name<'_>>, id: EventId) {
    if MODE.load(Ordering::Acquire) != ON || id.is_none() {
        return;
    }
    if let Some(bridge) = BRIDGE.get() {
        bridge.started(event, id.get());
    }
}

/// An event has stopped, and that is recorded.
#[cold]
pub(crate) fn stopped(event: u64) {
    if let Some(bridge) = BRIDGE.get() {
        bridge.stopped(event);
    }
}

/// An event has changed its state, and that is recorded.
#[cold]
pub(crate) fn changed(change: &State) {
    let is_group = EventId::from_raw(change.event).kind() == Kind::GroupApi;
    if change.state != state::GROUP_END_API_START || !is_group || MODE.load(Ordering::Acquire) != ON
    {
        return;
    }
    if let Some(bridge) = BRIDGE.get() {
        bridge.enter(change.event, Call::GROUP_END);
    }
}

/// What is left, when Score-P's measurement ends: its last chance.
fn at_end_of_measurement() {
    // Not in a forked child: what is there is its parent's.
    let Some(bridge) = current() else {
        return;
    };
    if let Some(measured) = Measured::at_end(&bridge.presence) {
        bridge.drain(&measured, Depth::Everything);
    }
    // Score-P is gone when its handler returns.
    if let Some(mut drain) = bridge.drain.try_lock_for(PATIENCE) {
        drain.close();
    }
}

/// How much is forwarded at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// What is sure to have ended, and not too much at a time: a callback must not take long.
    Settled,
    /// All that there is, as it is.
    Everything,
}

impl Bridge {
    fn new(presence: Presence) -> Self {
        Self {
            presence,
            operations: Operations::new(),
            counts: Counts::new(),
            ready: OnceLock::new(),
            setting_up: Mutex::new(()),
            drain: Mutex::new(Drain::new()),
        }
    }

    /// Leave to call Score-P from here, now.
    fn here(&self) -> Result<Measured<'_>, Refusal> {
        Measured::here(&self.presence)
    }

    /// What Score-P gave us; asks for it where that was not done yet. Another thread that is just doing it is not
    /// waited for.
    fn set_up(&self, measured: &Measured<'_>) -> Option<&Ready> {
        if self.ready.get().is_none()
            && let Some(_only_one) = self.setting_up.try_lock()
            && self.ready.get().is_none()
        {
            let _is_first = self.ready.set(Ready::new(measured));
        }
        self.ready.get()
    }

    fn started(&self, event: &Start<Name<'_>>, id: u64) {
        match event.body {
            Body::Coll(_) | Body::P2p(_) => {
                let facts = Facts::of(event);
                if !self.operations.begin(id, clock::ticks(), &facts) {
                    self.counts.add(Count::OperationsDropped);
                }
            }
            Body::ProxyOp(event::ProxyOp { .. }) | Body::KernelCh(event::KernelCh { .. }) => {
                let is_channel = matches!(event.body, Body::KernelCh(event::KernelCh { .. }));
                // Of another process's operation (PXN) there is nothing to show here.
                if !self.operations.child_begins(id, event.parent, is_channel) {
                    self.counts.add(Count::ChildrenAlone);
                }
            }
            _ => self.call_begins(event, id),
        }
    }

    fn call_begins(&self, event: &Start<Name<'_>>, id: u64) {
        if let Some(call) = Call::of(&event.body) {
            self.enter(id, call);
        }
    }

    fn enter(&self, id: u64, call: Call) {
        let measured = match self.here() {
            Ok(measured) if measured.is_recording() => measured,
            Ok(_) => return self.counts.add(Count::CallsNotRecorded),
            Err(refusal) => return self.counts.add(refusal.count()),
        };
        let Some(ready) = self.set_up(&measured) else {
            return self.counts.add(Count::CallsNotRecorded);
        };
        let closed = calls::enter(&measured, ready, id, call);
        self.counts.add_many(Count::CallsClosed, closed);
        self.counts.add(Count::Calls);
    }

    fn stopped(&self, id: u64) {
        if self.operations.stops(id, clock::ticks()) {
            return;
        }
        if !calls::is_open(id) {
            return;
        }
        let Ok(measured) = self.here() else {
            // Score-P closes by itself what is open when its measurement ends.
            calls::forget(id);
            return;
        };
        let Some(ready) = self.ready.get() else {
            return;
        };
        let closed = calls::leave(&measured, ready, id);
        self.counts.add_many(Count::CallsClosed, closed);
        // What is left when a recording has ended is said to be left.
        if MODE.load(Ordering::Acquire) == ON {
            self.drain(&measured, Depth::Settled);
        }
    }

    fn drain(&self, measured: &Measured<'_>, depth: Depth) {
        let Some(ready) = self.ready.get() else {
            return;
        };
        // In a callback nobody waits for a thread that is at it already.
        let drain = match depth {
            Depth::Settled => self.drain.try_lock(),
            Depth::Everything => self.drain.try_lock_for(PATIENCE),
        };
        if let Some(mut drain) = drain {
            drain.run(measured, ready, &self.operations, &self.counts, depth);
        }
    }

    fn describe(&self) -> String {
        let left_out = match &self.presence.tier {
            Tier::Internal(_) => {
                "operations on one row a process; no communicators (docs/SCOREP.md)"
            }
            Tier::User(_) => {
                "calls only: its internal functions are not those of Score-P 8 and later, which operations and attributes need"
            }
        };
        let waits = match self.ready.get() {
            Some(_) => "",
            None => "; begins on the first call by a thread that Score-P knows, while it measures",
        };
        format!("forwarding to {}; {left_out}{waits}", self.presence.name())
    }
}
