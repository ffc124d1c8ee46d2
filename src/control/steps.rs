//! Counts the collectives of each communicator, or the ranges that the program names, and decides for every start
//! whether it is inside a step range. All ranks of a communicator call its collectives in the same order. So the same
//! number is the same collective on all ranks, and a range cuts all ranks at the same collective without a clock. The
//! plugin counts the first event that NCCL reports of a collective: the call (CollApi) from 2.28 on, before that the
//! operation (Coll). It also counts collectives that it does not record.
//!
//! ```text
//!  up to 2.27   Group → Coll ─┬→ ProxyOp → …      counted at Coll; Group is decided by the next number
//!                             └→ KernelCh
//!  from 2.28    GroupApi → CollApi ─→ KernelLaunch, Group → Coll → …
//!                          counted    by the last call     by the parent
//! ```

use std::hash::Hasher;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use nccl_events::ids::{ContextId, EventId};
use nccl_events::{
    Body, Cause, CommInit, EventSelection, Kind, Name, Span, Span as StepRange, Start, StepSwitch, Switch, Table, event,
};
use rustc_hash::FxHasher;
use settings::config::StepRanges;

/// The largest number of communicators counted at once; others are not counted.
const COUNTERS: usize = 1024;

pub(super) struct Steps {
    reports_calls: AtomicBool,
    /// The ranges in order; 0 after the last.
    ranges: [AtomicU64; StepRanges::MOST],
    open_ranks: AtomicU32,
    /// v1 to v3: the hash of the counted communicator, taken from the first collective.
    counted_hash: AtomicU64,
    /// NCCL's mask of the kinds recorded inside ranges.
    events: AtomicU32,
    counters: [Counter; COUNTERS],
}

pub(super) static STEPS: Steps = Steps {
    reports_calls: AtomicBool::new(false),
    ranges: [const { AtomicU64::new(0) }; StepRanges::MOST],
    open_ranks: AtomicU32::new(0),
    counted_hash: AtomicU64::new(0),
    events: AtomicU32::new(0),
    counters: [const { Counter::new() }; COUNTERS],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Record,
    /// Record the event without its parent, which is not recorded.
    RecordAlone,
    Refuse,
    /// Do not record the event, but return the handle [`EventId::NOT_SELECTED`], so that NCCL reports its children.
    StandIn,
}

/// The decision on a start, and whether it switched its rank's recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) answer: Answer,
    /// The rank's context and the switch, to be recorded before the event.
    pub(crate) switch: Option<(u64, Switch)>,
}

/// The criterion for whether an event is inside a range.
enum RangeCriterion {
    Number,
    LastCall,
    Parent,
}

const fn by(kind: Kind, reports_calls: bool) -> RangeCriterion {
    match (kind, reports_calls) {
        (Kind::GroupApi | Kind::CollApi | Kind::P2pApi | Kind::ProxyCtrl | Kind::Unknown, _)
        | (Kind::Group | Kind::Coll, false) => RangeCriterion::Number,
        (Kind::Group | Kind::KernelLaunch, true) => RangeCriterion::LastCall,
        (
            Kind::Coll
            | Kind::P2p
            | Kind::ProxyOp
            | Kind::ProxyStep
            | Kind::KernelCh
            | Kind::NetPlugin
            | Kind::KernelPhase
            | Kind::CeColl
            | Kind::CeSync
            | Kind::CeBatch
            | Kind::KernelLaunch,
            _,
        ) => RangeCriterion::Parent,
    }
}

/// Whether a start of this kind can switch its rank into or out of a range.
const fn can_switch(kind: Kind, reports_calls: bool) -> bool {
    matches!(kind, Kind::GroupApi | Kind::CollApi | Kind::P2pApi)
        || (!reports_calls && matches!(kind, Kind::Group | Kind::Coll))
}

impl Steps {
    /// A session begins: no communicators, and the ranges from the job's environment.
    pub(super) fn begin(&self, table: Table, ranges: &StepRanges) {
        self.reports_calls.store(event::has(table, Kind::CollApi), Relaxed);
        for counter in &self.counters {
            counter.end();
        }
        self.counted_hash.store(0, Relaxed);
        self.open_ranks.store(0, Relaxed);
        self.set_ranges(ranges);
    }

    pub(super) fn counted_kind(&self) -> Kind {
        if self.reports_calls() { Kind::CollApi } else { Kind::Coll }
    }

    fn reports_calls(&self) -> bool {
        self.reports_calls.load(Relaxed)
    }

    pub(super) fn is_limited(&self) -> bool {
        self.ranges().next().is_some()
    }

    fn ranges(&self) -> impl Iterator<Item = StepRange> {
        let words = self.ranges.iter().map(|word| word.load(Relaxed));
        words.map_while(StepRange::from_word)
    }

    fn is_inside(&self, number: u32) -> bool {
        self.ranges().any(|range| (range.first..=range.last).contains(&number))
    }

    /// The range that an open rank is in; else the range it was in last, or the first range if it has been in none.
    fn nearest(&self, started: u32, is_open: bool) -> Option<StepRange> {
        if is_open {
            self.ranges().find(|range| started < range.last)
        } else {
            let before = self.ranges().filter(|range| range.last <= started).last();
            before.or_else(|| self.ranges().next())
        }
    }

    fn counter(&self, context: u64) -> Option<&Counter> {
        let counter = self.counter_of(ContextId::from_raw(context))?;
        (context != 0 && counter.context.load(Acquire) == context).then_some(counter)
    }

    fn counter_of(&self, context: ContextId) -> Option<&Counter> {
        let index = usize::try_from(context.sequence()).ok()? % COUNTERS;
        self.counters.get(index)
    }

    /// Counts a start, and decides whether to record it. `is_wanted`: whether the control file lets its kind through;
    /// `thread`: the named steps of the calling thread.
    pub(super) fn decide(&self, event: &Start<Name<'_>>, is_wanted: bool, thread: StepsOfThread) -> Verdict {
        let kind = event.body.kind();
        let reports_calls = self.reports_calls();
        let is_limited = self.is_limited();
        let counter = self.counter(event.context);
        let next = counter.map_or(1, |counter| counter.started.load(Relaxed).saturating_add(1));
        let mut switch = counter.and_then(|counter| self.learn(counter, event));
        let is_inside = !is_limited || self.is_event_inside(event, counter, next, thread);
        if is_limited
            && is_wanted
            && can_switch(kind, reports_calls)
            && let Some(counter) = counter.filter(|counter| Self::is_cut(counter))
            && counter.is_open.swap(is_inside, Relaxed) != is_inside
        {
            if counter.is_counted.load(Relaxed) {
                self.count_open(is_inside);
            }
            if is_inside {
                counter.opened.store(next, Relaxed);
            }
            switch = Some((event.context, self.switch(counter, !is_inside)));
        }
        let is_recorded = is_wanted && is_inside;
        if let Some(counter) = counter {
            if kind == self.counted_kind() {
                counter.started.store(next, Relaxed);
            }
            if matches!(kind, Kind::CollApi | Kind::P2pApi) {
                counter.was_recorded.store(is_recorded, Relaxed);
            }
        }
        let is_parent_refused = event.parent == EventId::NOT_SELECTED.get();
        let answer = match is_recorded {
            true if !is_parent_refused => Answer::Record,
            true if is_limited => Answer::RecordAlone,
            // Up to 2.27 NCCL does not report a group's collectives if the group has no handle; none could be counted.
            false if kind == Kind::Group && !reports_calls => Answer::StandIn,
            _ => Answer::Refuse,
        };
        Verdict { answer, switch }
    }

    /// Whether an event is inside a range; `next` is the number of its rank's next collective.
    fn is_event_inside(
        &self,
        event: &Start<Name<'_>>,
        counter: Option<&Counter>,
        next: u32,
        thread: StepsOfThread,
    ) -> bool {
        let is_named = is_named();
        let any_is_open = || if is_named { thread.is_inside(self.ranges()) } else { self.open_ranks.load(Relaxed) > 0 };
        match by(event.body.kind(), self.reports_calls()) {
            RangeCriterion::Number if is_named => any_is_open(),
            RangeCriterion::Number => match counter {
                Some(counter) if counter.is_counted.load(Relaxed) => self.is_inside(next),
                _ => any_is_open(),
            },
            RangeCriterion::LastCall => counter.map_or_else(any_is_open, |counter| counter.was_recorded.load(Relaxed)),
            RangeCriterion::Parent => event.parent != 0 && event.parent != EventId::NOT_SELECTED.get(),
        }
    }

    /// Whether a rank's own calls switch its recording.
    fn is_cut(counter: &Counter) -> bool {
        is_named() || counter.is_counted.load(Relaxed)
    }

    fn count_open(&self, is_open: bool) {
        if is_open {
            self.open_ranks.fetch_add(1, Relaxed);
        } else {
            self.open_ranks.fetch_sub(1, Relaxed);
        }
    }

    /// v1 to v3: learns from the first collective which communicator the rank belongs to.
    fn learn(&self, counter: &Counter, event: &Start<Name<'_>>) -> Option<(u64, Switch)> {
        let Body::Coll(coll) = &event.body else {
            return None;
        };
        if coll.comm_hash == 0 || !counter.is_counted.load(Relaxed) {
            return None;
        }
        counter.hash.store(coll.comm_hash, Relaxed);
        let _known = self.counted_hash.compare_exchange(0, coll.comm_hash, Relaxed, Relaxed);
        let is_over = !self.may_count(counter) && self.set_counted(counter, false);
        (is_over && self.is_limited() && !is_named())
            .then(|| (event.context, self.switch(counter, counter.is_open.load(Relaxed))))
    }

    /// Whether a rank's communicator may be the counted one (v1 to v3).
    fn may_count(&self, counter: &Counter) -> bool {
        let (hash, counted) = (counter.hash.load(Relaxed), self.counted_hash.load(Relaxed));
        hash == 0 || counted == 0 || hash == counted
    }

    /// Starts or stops counting a rank; returns whether that is a change.
    fn set_counted(&self, counter: &Counter, is_counted: bool) -> bool {
        if counter.is_counted.swap(is_counted, Relaxed) == is_counted {
            return false;
        }
        if counter.is_open.load(Relaxed) {
            self.count_open(is_counted);
        }
        if !is_named() && (!is_counted || counter.started.load(Relaxed) > 0) {
            counter.is_exact.store(false, Relaxed);
        }
        true
    }

    fn switch(&self, counter: &Counter, was_open: bool) -> Switch {
        let started = counter.started.load(Relaxed);
        let is_open = counter.is_open.load(Relaxed);
        let events = self.events.load(Relaxed);
        let wanted = |is_on| EventSelection { is_on, events };
        let range = match (is_named(), is_open) {
            (false, _) => self.nearest(started, is_open),
            (true, true) => Some(StepRange { first: counter.opened.load(Relaxed), last: u32::MAX }),
            (true, false) => Some(StepRange { first: counter.opened.load(Relaxed), last: started }),
        };
        Switch {
            cause: Cause::Steps(StepSwitch {
                range,
                started: started.into(),
                is_exact: counter.is_exact.load(Relaxed),
                is_named: is_named(),
            }),
            before: wanted(was_open),
            after: wanted(is_open),
        }
    }

    pub(super) fn set_events(&self, events: u32) {
        self.events.store(events, Relaxed);
    }

    /// Applies new ranges. Ranks of a communicator already in use may switch at different collectives.
    pub(super) fn set_ranges(&self, ranges: &StepRanges) {
        set_step_name(ranges.name());
        let words = ranges.ranges().iter().map(|range| range.word());
        for (word, new) in self.ranges.iter().zip(words.chain(std::iter::repeat(0))) {
            word.store(new, Relaxed);
        }
        for counter in self.counters.iter().filter(|counter| counter.context.load(Acquire) != 0) {
            if counter.started.load(Relaxed) > 0 {
                counter.is_exact.store(false, Relaxed);
            }
            if !counter.is_counted.load(Relaxed) {
                counter.is_open.store(true, Relaxed);
                counter.opened.store(counter.started.load(Relaxed).saturating_add(1), Relaxed);
            } else if ranges.is_empty() && !counter.is_open.swap(true, Relaxed) {
                counter.opened.store(counter.started.load(Relaxed).saturating_add(1), Relaxed);
                self.count_open(true);
            }
        }
    }

    /// A rank's communicator begins. The rank is not counted if no counter is free.
    pub(super) fn begin_rank(&self, context: ContextId) {
        if let Some(free) = self.counter_of(context)
            && free.context.load(Acquire) == 0
        {
            free.begin(context.get(), is_named() || !self.is_limited() || self.is_inside(1));
        }
    }

    pub(super) fn end_rank(&self, context: u64) {
        if let Some(counter) = self.counter(context) {
            self.set_counted(counter, false);
            counter.end();
        }
    }

    /// Starts or stops counting a rank; returns the switch to record, if the rank's recording changes.
    pub(super) fn count_rank(&self, context: u64, is_counted: bool) -> Option<Switch> {
        let counter = self.counter(context)?;
        let is_new = counter.started.load(Relaxed) == 0;
        // Named steps are those of every communicator.
        if !self.set_counted(counter, is_counted) || !self.is_limited() || is_named() {
            return None;
        }
        // The journal has no switch for a new rank yet.
        let was_open = (is_counted && is_new) || counter.is_open.load(Relaxed);
        Some(self.switch(counter, was_open))
    }

    /// v1 to v3: whether a rank may belong to the counted communicator.
    pub(super) fn may_count_rank(&self, context: u64) -> bool {
        self.counter(context).is_some_and(|counter| self.may_count(counter))
    }

    /// v1 to v3: when the counted communicator has ended, switches to the communicator of the first living rank.
    pub(super) fn choose_hash(&self, contexts: impl Iterator<Item = u64> + Clone) {
        let hashes = contexts.filter_map(|context| {
            let hash = self.counter(context)?.hash.load(Relaxed);
            (hash != 0).then_some(hash)
        });
        let counted = self.counted_hash.load(Relaxed);
        if hashes.clone().all(|hash| hash != counted) {
            self.counted_hash.store(hashes.clone().next().unwrap_or(0), Relaxed);
        }
    }
}

// Steps that the program names are the NVTX ranges with one name (`NCCL_OTF2_STEPS=NAME`), which each thread counts. A
// call is judged by the ranges of its own thread. A thread that has begun none of them, such as PyTorch's for backward
// passes, is judged by the thread that began or ended one last. Every communicator is cut, and the plugin counts to say
// at which collective: if the ranks do the same in a step, these numbers are the same on all ranks.

/// The hash of the name; 0 if steps are not named.
static NAME: AtomicU64 = AtomicU64::new(0);
/// Counts the names, so that what threads counted for an earlier name is void.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Of the thread that began or ended a step last: how many it has begun (high half), and whether one is open.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// Whether a call was inside a named step.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Whether this library receives the program's ranges.
static HAS_RANGES: AtomicBool = AtomicBool::new(false);

/// The steps of a thread. A range with the name inside of a step belongs to the step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepsOfThread {
    epoch: u32,
    begun: u32,
    /// How many ranges with the name are open.
    open: u32,
}

/// Whether steps are named.
#[inline]
pub(crate) fn is_named() -> bool {
    NAME.load(Relaxed) != 0
}

/// The hash of a name without the number at its end: "step", "step #" and "step_#" are the same. Never 0.
fn hash(name: &[u8]) -> u64 {
    let is_separator = |byte: &u8| b"# _-:=".contains(byte);
    let length = name.iter().rposition(|byte| !is_separator(byte)).map_or(name.len(), |last| last + 1);
    let mut hasher = FxHasher::default();
    hasher.write(name.get(..length).unwrap_or(name));
    hasher.finish() | 1
}

/// The program's ranges reach this library from now on. Steps are counted from the program's first one.
pub(crate) fn begin_with_ranges(name: Option<&str>) {
    if !HAS_RANGES.swap(true, Relaxed) {
        set_step_name(name);
    }
}

/// If steps are named and no call was inside of one: how many the thread that began or ended one last has begun.
pub(crate) fn steps_without_calls() -> Option<u32> {
    (is_named() && !IS_USED.load(Relaxed)).then(|| latest().0)
}

pub(super) fn has_ranges() -> bool {
    HAS_RANGES.load(Relaxed)
}

/// Names the steps. Ranges that are open now do not count.
pub(super) fn set_step_name(name: Option<&str>) {
    let name = name.map_or(0, |name| hash(name.as_bytes()));
    if NAME.swap(name, Relaxed) != name {
        LATEST.store(0, Relaxed);
        EPOCH.fetch_add(1, Relaxed);
    }
}

impl StepsOfThread {
    /// A range begins on the thread; it counts if it is a step.
    #[cold]
    pub(crate) fn begin(&mut self, name: &[u8]) {
        if hash(name) == NAME.load(Relaxed) {
            let epoch = EPOCH.load(Relaxed);
            if self.epoch != epoch {
                *self = Self { epoch, ..Self::default() };
            }
            self.begun = self.begun.saturating_add(u32::from(self.open == 0));
            self.open += 1;
            self.publish();
        }
    }

    /// A range ends on the thread.
    #[cold]
    pub(crate) fn end(&mut self, name: &[u8]) {
        if hash(name) == NAME.load(Relaxed) && self.epoch == EPOCH.load(Relaxed) && self.open > 0 {
            self.open -= 1;
            self.publish();
        }
    }

    fn publish(self) {
        LATEST.store(u64::from(self.begun) << 32 | u64::from(self.open > 0), Relaxed);
    }

    /// Whether the thread is inside a step of one of the ranges.
    pub(super) fn is_inside(self, mut ranges: impl Iterator<Item = Span>) -> bool {
        let (begun, is_open) =
            if self.epoch == EPOCH.load(Relaxed) && self.begun > 0 { (self.begun, self.open > 0) } else { latest() };
        let is_inside = is_open && ranges.any(|range| (range.first..=range.last).contains(&begun));
        if is_inside && !IS_USED.load(Relaxed) {
            IS_USED.store(true, Relaxed);
        }
        is_inside
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
fn latest() -> (u32, bool) {
    let latest = LATEST.load(Relaxed);
    ((latest >> 32) as u32, latest as u32 != 0)
}

/// Chooses the communicator that step ranges count: the living one with the most ranks, the first among equals. If
/// `init` gives no number of ranks and no id (v1 to v3), the communicator with the first collective.
#[derive(Debug, Default)]
pub(crate) struct LargestCommunicator {
    live: Vec<LiveCommunicator>,
}

#[derive(Debug)]
struct LiveCommunicator {
    context: u64,
    /// 0 if unknown.
    ranks: u32,
    /// Equal on all ranks of a communicator; `None` if `init` gives no id.
    identity: Option<(u64, i32, u32)>,
}

pub(crate) type Switches = Vec<(u64, Switch)>;

impl LargestCommunicator {
    /// A communicator begins, the `repetition`th with its id.
    pub(crate) fn begin(&mut self, context: ContextId, repetition: u32, comm: &CommInit<'_>) -> Switches {
        STEPS.begin_rank(context);
        self.live.push(LiveCommunicator {
            context: context.get(),
            ranks: CommInit::possible(comm.rank, comm.ranks).map_or(0, |(_, ranks)| ranks),
            identity: (comm.comm_id != 0).then_some((comm.comm_id, comm.ranks, repetition)),
        });
        self.choose()
    }

    pub(crate) fn end(&mut self, context: u64) -> Switches {
        self.live.retain(|member| member.context != context);
        STEPS.end_rank(context);
        self.choose()
    }

    fn choose(&self) -> Switches {
        // Reversed, because `max_by_key` returns the last of equals.
        let Some(largest) = self.live.iter().rev().max_by_key(|member| member.ranks) else {
            return Switches::new();
        };
        STEPS.choose_hash(self.live.iter().map(|member| member.context));
        let switch = |member: &LiveCommunicator| {
            let is_counted = match (member.identity, largest.identity) {
                (None, None) => STEPS.may_count_rank(member.context),
                (ours, theirs) => ours == theirs,
            };
            Some((member.context, STEPS.count_rank(member.context, is_counted)?))
        };
        self.live.iter().filter_map(switch).collect()
    }
}

/// The number of collectives that a rank has called, and whether it is inside a step range. NCCL calls a communicator's
/// functions one after the other, on any thread.
#[repr(align(64))]
pub(super) struct Counter {
    /// The rank's context; 0 in a free counter.
    pub(super) context: AtomicU64,
    pub(super) started: AtomicU32,
    /// Named steps: the first collective since recording was switched on.
    pub(super) opened: AtomicU32,
    /// The communicator's hash in descriptors (v1 to v3); 0 until the first collective.
    pub(super) hash: AtomicU64,
    pub(super) is_counted: AtomicBool,
    /// Whether the last call was inside a range; true before the first call.
    pub(super) is_open: AtomicBool,
    /// Whether the last call was recorded. The events that NCCL derives from the call are then recorded too.
    pub(super) was_recorded: AtomicBool,
    /// Whether the ranges are unchanged since the rank's first collective.
    pub(super) is_exact: AtomicBool,
}

impl Counter {
    /// All zero, so that the plugin's file does not contain the counters. [`Self::begin`] sets what they begin with.
    pub(super) const fn new() -> Self {
        Self {
            context: AtomicU64::new(0),
            started: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            hash: AtomicU64::new(0),
            is_counted: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            was_recorded: AtomicBool::new(false),
            is_exact: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(&self, context: u64, is_open: bool) {
        self.started.store(0, Relaxed);
        self.opened.store(1, Relaxed);
        self.hash.store(0, Relaxed);
        self.is_counted.store(false, Relaxed);
        self.is_open.store(is_open, Relaxed);
        self.was_recorded.store(is_open, Relaxed);
        self.is_exact.store(true, Relaxed);
        self.context.store(context, Release);
    }

    pub(super) fn end(&self) {
        self.is_counted.store(false, Relaxed);
        self.context.store(0, Release);
    }
}
