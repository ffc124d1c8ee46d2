//! Forwards recorded events: decides what each event becomes, and which thread may call Score-P for it. Calls of NCCL
//! become regions on the location of the calling thread; operations go through `operations` and `drain`.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use crate::scorep::drain::{Depth, Drain};
use crate::scorep::guard::{Refusal, ScorePAccess};
use crate::scorep::operations::{OperationInfo, Operations};
use crate::scorep::presence;
use crate::scorep::presence::{Absence, Capability, Count, Counts, ScorePState};
use crate::scorep::regions::{Attribute, CallRegion, Function, OtherCall};
use crate::scorep::setup::Setup;
use journal::clock;
use journal::part::ScorepReport;
use journal::uninterrupted::not_cancelled;
use nccl_events::collective::element_bytes;
use nccl_events::ids::EventId;
use nccl_events::{Body, CommInit, Kind, Name, Start, State, event, state};
use parking_lot::Mutex;
use settings::ScorepMode;

const OFF: u8 = 0;
const ON: u8 = 1;
/// Recording has ended: open calls are closed, and nothing new begins.
const OVER: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(OFF);
static SHOWS_OPERATIONS: AtomicBool = AtomicBool::new(true);
/// Made only once, because Score-P begins only once in a process.
static BRIDGE: OnceLock<Bridge> = OnceLock::new();

/// How long the end of a recording, or of the program, waits for a thread that is forwarding.
const PATIENCE: Duration = Duration::from_secs(2);

struct Bridge {
    presence: ScorePState,
    operations: Operations,
    counts: Counts,
    /// Score-P's handles, present once a thread that Score-P knows could request them.
    setup: OnceLock<Setup>,
    setting_up: Mutex<()>,
    drain: Mutex<Drain>,
}

/// Whether the recording is forwarded. Threads check this when they take their slots.
pub(crate) fn is_on() -> bool {
    MODE.load(Ordering::Relaxed) != OFF
}

pub(crate) enum BridgeStart {
    Silent,
    On(String),
    /// The user's request cannot be met.
    Refused(String),
}

impl BridgeStart {
    fn without(mode: ScorepMode, absence: &Absence) -> Self {
        match (mode, absence) {
            (ScorepMode::On, absence) => Self::Refused(format!("NCCL_OTF2_SCOREP=on: {absence}")),
            (ScorepMode::Calls, absence) => Self::Refused(format!("NCCL_OTF2_SCOREP=calls: {absence}")),
            (_, Absence::Incomplete(_) | Absence::RecordsNothing) => Self::On(absence.to_string()),
            (_, Absence::NotThere) => Self::Silent,
        }
    }
}

pub(crate) fn begin(mode: ScorepMode) -> BridgeStart {
    if mode == ScorepMode::Off {
        return BridgeStart::Silent;
    }
    let bridge = match BRIDGE.get() {
        Some(bridge) => bridge,
        None => match presence::probe() {
            Ok(presence) => BRIDGE.get_or_init(|| Bridge::new(presence)),
            Err(absence) => return BridgeStart::without(mode, &absence),
        },
    };
    let is_for_scalasca =
        mode == ScorepMode::Auto && bridge.presence.writes_trace() && presence::is_for_scalasca(std::env::vars_os());
    SHOWS_OPERATIONS.store(mode != ScorepMode::Calls && !is_for_scalasca, Ordering::Relaxed);
    bridge.counts.reset();
    MODE.store(ON, Ordering::Release);
    // Better here than in a callback. If this thread may not call Score-P, the first thread that may sets it up.
    if let Ok(measured) = bridge.here() {
        bridge.set_up(&measured);
    }
    BridgeStart::On(bridge.describe(is_for_scalasca))
}

pub(crate) fn communicator(context: u64, comm: &CommInit<'_>) {
    if let Some(bridge) = current() {
        bridge.drain.lock().communicator(context, comm.comm_id);
    }
}

/// The id of a communicator's region. No event has this id.
const COMMUNICATOR: u64 = 1;

/// A region around a communicator's beginning or end, if Score-P is present.
pub(crate) struct CommRegion {
    bridge: Option<&'static Bridge>,
}

impl CommRegion {
    pub(crate) fn init() -> Self {
        Self::enter(Call::COMM_INIT)
    }

    pub(crate) fn destroy() -> Self {
        Self::enter(Call::COMM_DESTROY)
    }

    fn enter(call: Call) -> Self {
        let bridge = current().filter(|_| MODE.load(Ordering::Acquire) == ON);
        if let Some(bridge) = bridge {
            bridge.enter(COMMUNICATOR, call);
        }
        Self { bridge }
    }
}

impl Drop for CommRegion {
    fn drop(&mut self) {
        if let Some(bridge) = self.bridge {
            bridge.stopped(COMMUNICATOR);
        }
    }
}

/// A recording has ended. Returns the counts, if Score-P was present.
pub(crate) fn end() -> Option<ScorepReport> {
    let bridge = current()?;
    MODE.store(OVER, Ordering::Release);
    bridge.drain_here();
    let held = bridge.drain.try_lock_for(PATIENCE).map_or(0, |drain| drain.held());
    bridge.counts.set(Count::OperationsWaiting, bridge.operations.waiting() + held);
    Some(presence::report(bridge.presence.name(), &bridge.counts))
}

/// Stops forwarding at once: for a forked child.
pub(crate) fn disable() {
    MODE.store(OFF, Ordering::Release);
}

fn current() -> Option<&'static Bridge> {
    is_on().then(|| BRIDGE.get()).flatten()
}

#[cold]
pub(crate) fn started(event: &Start<Name<'_>>, id: EventId) {
    if MODE.load(Ordering::Acquire) != ON || id.is_none() {
        return;
    }
    if let Some(bridge) = BRIDGE.get() {
        bridge.started(event, id.get());
    }
}

#[cold]
pub(crate) fn stopped(event: u64) {
    if let Some(bridge) = BRIDGE.get() {
        bridge.stopped(event);
    }
}

#[cold]
pub(crate) fn changed(change: &State) {
    let is_group = EventId::from_raw(change.event).kind() == Kind::GroupApi;
    if change.state != state::GROUP_END_API_START || !is_group || MODE.load(Ordering::Acquire) != ON {
        return;
    }
    if let Some(bridge) = BRIDGE.get() {
        bridge.enter(change.event, Call::GROUP_END);
    }
}

/// The program exits while Score-P measures: forwards what no thread known to Score-P could forward before.
pub(crate) fn at_exit() {
    if let Some(bridge) = current() {
        bridge.drain_here();
    }
}

/// Score-P's measurement ends: forwards the rest.
pub(crate) fn at_end_of_measurement() {
    // Not in a forked child, where the remaining operations belong to the parent.
    let Some(bridge) = current() else {
        return;
    };
    if let Some(measured) = ScorePAccess::at_end(&bridge.presence) {
        bridge.drain(&measured, Depth::Everything);
    }
    // Score-P is gone once its handler returns.
    if let Some(mut drain) = bridge.drain.try_lock_for(PATIENCE) {
        drain.close();
    }
}

/// Score-P calls this at the end of its measurement.
extern "C" fn end_of_measurement() -> c_int {
    // A panic must not reach Score-P.
    let _caught = in_process::catch(|| not_cancelled(at_end_of_measurement));
    0
}

impl Bridge {
    fn new(presence: ScorePState) -> Self {
        Self {
            presence,
            operations: Operations::new(),
            counts: Counts::new(),
            setup: OnceLock::new(),
            setting_up: Mutex::new(()),
            drain: Mutex::new(Drain::new()),
        }
    }

    fn here(&self) -> Result<ScorePAccess<'_>, Refusal> {
        ScorePAccess::here(&self.presence)
    }

    /// Score-P's handles. The first caller requests them; other threads do not wait for it.
    fn set_up(&self, measured: &ScorePAccess<'_>) -> Option<&Setup> {
        if self.setup.get().is_none()
            && let Some(_only_one) = self.setting_up.try_lock()
            && self.setup.get().is_none()
        {
            let shows_operations = SHOWS_OPERATIONS.load(Ordering::Relaxed);
            let _is_first = self.setup.set(Setup::new(measured, shows_operations, end_of_measurement));
        }
        self.setup.get()
    }

    fn started(&self, event: &Start<Name<'_>>, id: u64) {
        let shows_operations = SHOWS_OPERATIONS.load(Ordering::Relaxed);
        match event.body {
            Body::Coll(_) | Body::P2p(_) if !shows_operations => self.counts.add(Count::OperationsCallsOnly),
            Body::ProxyOp(_) | Body::KernelCh(_) if !shows_operations => {}
            Body::Coll(_) | Body::P2p(_) => {
                let facts = OperationInfo::from_event(event);
                if !self.operations.begin(id, clock::ticks(), &facts) {
                    self.counts.add(Count::OperationsDropped);
                }
            }
            Body::ProxyOp(_) | Body::KernelCh(_) => {
                // The operation may belong to another process (PXN).
                if !self.operations.child_begins(id, event.parent) {
                    self.counts.add(Count::ChildrenAlone);
                }
            }
            _ => {
                if let Some(call) = Call::from_body(&event.body) {
                    self.enter(id, call);
                }
            }
        }
    }

    fn enter(&self, id: u64, call: Call) {
        let measured = match self.here() {
            Ok(measured) if measured.is_recording() => measured,
            Ok(_) => return self.counts.add(Count::CallsNotRecorded),
            Err(refusal) => return self.counts.add(refusal.count()),
        };
        let Some(setup) = self.set_up(&measured) else {
            return self.counts.add(Count::CallsNotRecorded);
        };
        if setup.excludes(call.region()) {
            return self.counts.add(Count::CallsFiltered);
        }
        let closed = enter(&measured, setup, id, call);
        self.counts.add_many(Count::CallsClosed, closed);
        self.counts.add(Count::Calls);
    }

    fn stopped(&self, id: u64) {
        if self.operations.stops(id, clock::ticks()) {
            return;
        }
        if !is_open(id) {
            return;
        }
        let Ok(measured) = self.here() else {
            // Score-P itself closes regions still open when its measurement ends.
            forget(id);
            return;
        };
        let Some(setup) = self.setup.get() else {
            return;
        };
        let closed = leave(&measured, setup, id);
        self.counts.add_many(Count::CallsClosed, closed);
        // The report of an ended recording counts the remaining operations as waiting.
        if MODE.load(Ordering::Acquire) == ON {
            self.drain(&measured, Depth::Settled);
        }
    }

    /// Forwards everything, if this thread may call Score-P.
    fn drain_here(&self) {
        if let Ok(measured) = self.here() {
            self.set_up(&measured);
            self.drain(&measured, Depth::Everything);
        }
    }

    fn drain(&self, measured: &ScorePAccess<'_>, depth: Depth) {
        let Some(setup) = self.setup.get() else {
            return;
        };
        // A callback does not wait for another thread that is forwarding.
        let drain = match depth {
            Depth::Settled => self.drain.try_lock(),
            Depth::Everything => self.drain.try_lock_for(PATIENCE),
        };
        if let Some(mut drain) = drain {
            drain.run(measured, setup, &self.operations, &self.counts, depth);
        }
    }

    fn describe(&self, is_for_scalasca: bool) -> String {
        let left_out = match &self.presence.capability {
            Capability::Internal(_) if is_for_scalasca => {
                "calls only, because Scalasca's analyser rejects other locations than threads (docs/SCALASCA.md)"
            }
            Capability::Internal(_) if !SHOWS_OPERATIONS.load(Ordering::Relaxed) => {
                "calls only (NCCL_OTF2_SCOREP=calls)"
            }
            Capability::Internal(_) => "operations on one location per process; no communicators (docs/SCOREP.md)",
            Capability::User(_) => {
                "calls only: its internal functions are not those of Score-P 8 and later, which operations and attributes need"
            }
        };
        let waits = match self.setup.get() {
            Some(_) => "",
            None => "; begins with the first call of a thread that Score-P knows, while it measures",
        };
        format!("forwarding to {}; {left_out}{waits}", self.presence.name())
    }
}

// The region of an NCCL call is entered and left inside the call, never across a return to the program: the program
// enters and leaves its own regions there, and Score-P ends a program whose regions do not nest. So only the end of a
// group, which does the work, becomes a region: NCCL reports implicit groups like the user's, and does not identify the
// group when groups are nested. There are two levels: the call, and what the call does. If NCCL does not report a
// region's end, the next region of the same or the outer level closes it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    region: CallRegion,
    level: Level,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Outer,
    Inner,
}

impl Call {
    /// The plugin's part of making a communicator, for which NCCL waits.
    pub(super) const COMM_INIT: Self = Self::other(OtherCall::CommInit, Level::Inner);
    pub(super) const COMM_DESTROY: Self = Self::other(OtherCall::CommDestroy, Level::Inner);
    pub(super) const GROUP_END: Self = Self::other(OtherCall::GroupEnd, Level::Outer);

    const fn other(other: OtherCall, level: Level) -> Self {
        Self { region: CallRegion::Other(other), level, bytes: 0 }
    }

    pub(super) const fn region(&self) -> CallRegion {
        self.region
    }

    /// The call of an event; `None` for an event that is not a call, and for a group, whose end alone is a region.
    pub(super) fn from_body(body: &Body<Name<'_>>) -> Option<Self> {
        Some(match *body {
            Body::CollApi(event::CollApi { func, count, datatype, .. })
            | Body::P2pApi(event::P2pApi { func, count, datatype, .. }) => Self {
                region: CallRegion::Of(Function::named(func.bytes())),
                level: Level::Outer,
                bytes: count.saturating_mul(element_bytes(datatype.bytes())),
            },
            Body::KernelLaunch(_) => Self::other(OtherCall::Launch, Level::Inner),
            Body::Group(_) => Self::other(OtherCall::Plan, Level::Inner),
            Body::GroupApi(_) | Body::Coll(_) | Body::P2p(_) | Body::CeColl(_) | Body::CeSync(_) => return None,
            Body::CeBatch(_) | Body::ProxyOp(_) | Body::ProxyStep(_) | Body::ProxyCtrl(_) => return None,
            Body::NetPlugin(_) | Body::KernelCh(_) | Body::KernelPhase(_) | Body::Unknown(_) => return None,
        })
    }
}

/// A thread's open regions, by [`Level`].
type OpenRegions = [Option<EnteredRegion>; 2];

#[derive(Clone, Copy)]
struct EnteredRegion {
    event: u64,
    region: CallRegion,
}

thread_local! {
    static OPEN: Cell<OpenRegions> = const { Cell::new([None; 2]) };
}

fn level_of(open: &OpenRegions, event: u64) -> Option<usize> {
    open.iter().position(|entered| entered.is_some_and(|entered| entered.event == event))
}

pub(super) fn is_open(event: u64) -> bool {
    level_of(&OPEN.get(), event).is_some()
}

/// Enters a region; returns how many regions had to be closed first because their end is unknown.
pub(super) fn enter(measured: &ScorePAccess<'_>, setup: &Setup, event: u64, call: Call) -> u64 {
    let mut open = OPEN.get();
    let level = call.level as usize;
    let closed = close_from(measured, setup, &mut open, level);
    let region = call.region;
    if let Some(place) = open.get_mut(level) {
        *place = Some(EnteredRegion { event, region });
    }
    // Before entering, because Score-P may call back.
    OPEN.set(open);
    match measured.capability() {
        Capability::Internal(_) => {
            if let (Some(functions), Some(definitions)) = (measured.internal(), &setup.internal)
                && let Some(handle) = definitions.call(region)
            {
                if call.bytes > 0 {
                    functions.add_number(definitions.attribute(Attribute::Bytes), call.bytes);
                }
                functions.enter(handle);
                if let Some(metric) = definitions.bytes.filter(|_| call.bytes > 0) {
                    functions.trigger(metric, call.bytes);
                }
            }
        }
        Capability::User(user) => {
            let (handle, name) = setup.user(region);
            measured.user_begin(user, handle, name);
        }
    }
    closed
}

/// Leaves an event's region; returns how many regions inside it had to be closed.
pub(super) fn leave(measured: &ScorePAccess<'_>, setup: &Setup, event: u64) -> u64 {
    let mut open = OPEN.get();
    let closed = level_of(&open, event).map_or(0, |level| close_from(measured, setup, &mut open, level));
    OPEN.set(open);
    closed.saturating_sub(1)
}

/// Marks a region that can no longer be left as closed.
pub(super) fn forget(event: u64) {
    let mut open = OPEN.get();
    if let Some(level) = level_of(&open, event) {
        open.iter_mut().skip(level).for_each(|entered| *entered = None);
    }
    OPEN.set(open);
}

/// Closes the open regions from a level on, innermost first; returns their number.
fn close_from(measured: &ScorePAccess<'_>, setup: &Setup, open: &mut OpenRegions, level: usize) -> u64 {
    let mut closed = 0;
    for EnteredRegion { region, .. } in open.iter_mut().skip(level).rev().filter_map(Option::take) {
        closed += 1;
        match measured.capability() {
            Capability::Internal(_) => {
                if let (Some(functions), Some(definitions)) = (measured.internal(), &setup.internal)
                    && let Some(handle) = definitions.call(region)
                {
                    functions.exit(handle);
                }
            }
            Capability::User(user) => measured.user_end(user, setup.user(region).0),
        }
    }
    closed
}
