//! Counts the collectives of each communicator, and says of every start whether it is in a window of steps.
//!
//! All ranks of a communicator call its collectives in the same order, so the same number is the same collective on all,
//! and a window cuts all of them at the same place, whatever their clocks say. What is counted is what NCCL tells
//! first of a collective: the call (CollApi, from 2.28 on), before that the operation (Coll), also when nothing is recorded.
//!
//! ```text
//!  up to 2.27   Group → Coll ─┬→ ProxyOp → …      counted at Coll; Group is judged by the number that comes next
//!                             └→ KernelCh
//!  from 2.28    GroupApi → CollApi ─→ KernelLaunch, Group → Coll → …
//!                          counted    by the last call     by the parent
//! ```

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::{Cause, Switch, Turn, Wanted};
use crate::config::windows::{Span, Windows};
use nccl_events::id::{ContextId, EventId};
use nccl_events::{Body, Kind, Name, Start};

/// The first version of the interface that tells of calls.
const FIRST_WITH_CALLS: u8 = 5;
/// More communicators that live at once are not counted.
const COUNTERS: usize = 1024;

/// What is known of a rank of a communicator. Its calls come one after the other, of whatever threads.
#[repr(align(64))]
struct Counter {
    /// Its context; 0 for a free one.
    context: AtomicU64,
    /// Collectives that were started.
    started: AtomicU32,
    /// Its communicator as descriptors name it (v1 to v3); 0 as long as it is not known.
    hash: AtomicU64,
    /// Whether windows count its collectives.
    is_counted: AtomicBool,
    /// Whether its last call was in a window, or there was none yet.
    is_open: AtomicBool,
    /// Whether its last call was recorded: what NCCL makes of it is, too.
    was_recorded: AtomicBool,
    /// Whether windows were the same from its first collective on.
    is_exact: AtomicBool,
}

static ALL: [Counter; COUNTERS] = [const { Counter::new() }; COUNTERS];
/// The version of the interface.
static TABLE: AtomicU8 = AtomicU8::new(0);
/// The windows in order; 0 behind the last.
static WINDOWS: [AtomicU64; Windows::MOST] = [const { AtomicU64::new(0) }; Windows::MOST];
/// How many counted ranks are in a window.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// The counted communicator as descriptors name it, where `init` does not say which is which: that of the first collective.
static LEAD_HASH: AtomicU64 = AtomicU64::new(0);
/// NCCL's mask of what is recorded inside windows.
static EVENTS: AtomicU32 = AtomicU32::new(0);

impl Counter {
    const fn new() -> Self {
        Self {
            context: AtomicU64::new(0),
            started: AtomicU32::new(0),
            hash: AtomicU64::new(0),
            is_counted: AtomicBool::new(false),
            is_open: AtomicBool::new(true),
            was_recorded: AtomicBool::new(true),
            is_exact: AtomicBool::new(true),
        }
    }

    /// Takes it for a new context.
    fn begin(&self, context: u64, is_open: bool) {
        self.started.store(0, Ordering::Relaxed);
        self.hash.store(0, Ordering::Relaxed);
        self.is_counted.store(false, Ordering::Relaxed);
        self.is_open.store(is_open, Ordering::Relaxed);
        self.was_recorded.store(is_open, Ordering::Relaxed);
        self.is_exact.store(true, Ordering::Relaxed);
        self.context.store(context, Ordering::Release);
    }

    /// Counts it or no longer. Whether that is new.
    fn count(&self, is_counted: bool) -> bool {
        if self.is_counted.swap(is_counted, Ordering::Relaxed) == is_counted {
            return false;
        }
        if self.is_open.load(Ordering::Relaxed) {
            if is_counted {
                OPEN.fetch_add(1, Ordering::Relaxed);
            } else {
                OPEN.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if !is_counted || self.started.load(Ordering::Relaxed) > 0 {
            self.is_exact.store(false, Ordering::Relaxed);
        }
        true
    }

    /// Whether its communicator may be the one that windows count (v1 to v3).
    fn may_lead(&self) -> bool {
        let (hash, lead) = (
            self.hash.load(Ordering::Relaxed),
            LEAD_HASH.load(Ordering::Relaxed),
        );
        hash == 0 || lead == 0 || hash == lead
    }

    /// What its calls of now on are told of a window, of which it was `was_open` before.
    fn turn(&self, was_open: bool) -> Switch {
        let started = self.started.load(Ordering::Relaxed);
        let is_open = self.is_open.load(Ordering::Relaxed);
        let events = EVENTS.load(Ordering::Relaxed);
        let wanted = |is_on| Wanted { is_on, events };
        Switch {
            cause: Cause::Window(Turn {
                window: nearest(started, is_open),
                started: started.into(),
                is_exact: self.is_exact.load(Ordering::Relaxed),
            }),
            before: wanted(was_open),
            after: wanted(is_open),
        }
    }
}

/// What becomes of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is recorded.
    Record,
    /// It is, but not what it is in.
    RecordAlone,
    /// It is not.
    Refuse,
    /// It is not, and gets [`EventId::NOT_WANTED`], so that NCCL tells of what is in it.
    StandIn,
}

/// What becomes of a start, and whether the rank turned with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) answer: Answer,
    /// The rank's context and what to record before the event.
    pub(crate) turn: Option<(u64, Switch)>,
}

/// By what it is decided whether an event is in a window.
enum By {
    /// The number of the next collective.
    Number,
    /// What became of the last call.
    LastCall,
    /// What became of what it is in.
    Parent,
}

const fn by(kind: Kind, tells_calls: bool) -> By {
    match (kind, tells_calls) {
        (Kind::GroupApi | Kind::CollApi | Kind::P2pApi | Kind::ProxyCtrl | Kind::Unknown, _)
        | (Kind::Group | Kind::Coll, false) => By::Number,
        (Kind::Group | Kind::KernelLaunch, true) => By::LastCall,
        _ => By::Parent,
    }
}

/// The kind that is counted.
pub(super) fn counted_kind() -> Kind {
    if tells_calls() {
        Kind::CollApi
    } else {
        Kind::Coll
    }
}

fn tells_calls() -> bool {
    TABLE.load(Ordering::Relaxed) >= FIRST_WITH_CALLS
}

/// Whether there are windows.
pub(super) fn is_windowed() -> bool {
    let first = WINDOWS.first();
    first.is_some_and(|first| first.load(Ordering::Relaxed) != 0)
}

fn windows() -> impl Iterator<Item = Span> {
    let words = WINDOWS.iter().map(|word| word.load(Ordering::Relaxed));
    words.map_while(Span::from_word)
}

/// Whether a collective is in a window.
fn is_inside(number: u32) -> bool {
    windows().any(|span| (span.first..=span.last).contains(&number))
}

/// The window that a rank is in, will be in next, or was in last.
fn nearest(started: u32, is_open: bool) -> Option<Span> {
    if is_open {
        windows().find(|span| started < span.last)
    } else {
        let before = windows().filter(|span| span.last <= started).last();
        before.or_else(|| windows().next())
    }
}

fn counter(context: u64) -> Option<&'static Counter> {
    let id = ContextId::from_raw(context);
    let place = usize::try_from(id.sequence()).ok()? % COUNTERS;
    let counter = ALL.get(place)?;
    (context != 0 && counter.context.load(Ordering::Acquire) == context).then_some(counter)
}

/// Counts a start, and decides. `is_wanted`: whether the control file lets through what it is.
pub(super) fn decide(event: &Start<Name<'_>>, is_wanted: bool) -> Verdict {
    let kind = event.body.kind();
    let tells_calls = tells_calls();
    let counter = counter(event.context);
    let is_windowed = is_windowed();
    let next = counter.map_or(1, |counter| {
        counter.started.load(Ordering::Relaxed).saturating_add(1)
    });
    let mut turn = counter.and_then(|counter| learn(counter, event));
    let mut is_in = !is_windowed;
    if is_windowed {
        is_in = match by(kind, tells_calls) {
            By::Number => match counter.filter(|counter| is_counted(counter)) {
                Some(_) => is_inside(next),
                None => OPEN.load(Ordering::Relaxed) > 0,
            },
            By::LastCall => counter.map_or(OPEN.load(Ordering::Relaxed) > 0, |counter| {
                counter.was_recorded.load(Ordering::Relaxed)
            }),
            By::Parent => event.parent != 0 && event.parent != EventId::NOT_WANTED.get(),
        };
        let turns = matches!(kind, Kind::GroupApi | Kind::CollApi | Kind::P2pApi)
            || (!tells_calls && matches!(kind, Kind::Group | Kind::Coll));
        if let Some(counter) = counter.filter(|counter| turns && is_wanted && is_counted(counter))
            && counter.is_open.swap(is_in, Ordering::Relaxed) != is_in
        {
            if is_in {
                OPEN.fetch_add(1, Ordering::Relaxed);
            } else {
                OPEN.fetch_sub(1, Ordering::Relaxed);
            }
            turn = Some((event.context, counter.turn(!is_in)));
        }
    }
    let is_recorded = is_wanted && is_in;
    if let Some(counter) = counter {
        if kind == counted_kind() {
            counter.started.store(next, Ordering::Relaxed);
        }
        if matches!(kind, Kind::CollApi | Kind::P2pApi) {
            counter.was_recorded.store(is_recorded, Ordering::Relaxed);
        }
    }
    let is_in_stand_in = event.parent == EventId::NOT_WANTED.get();
    let answer = match is_recorded {
        true if !is_in_stand_in => Answer::Record,
        true if is_windowed => Answer::RecordAlone,
        // Up to 2.27 NCCL tells nothing of a group that has no handle: the collectives could not be counted.
        false if kind == Kind::Group && !tells_calls => Answer::StandIn,
        _ => Answer::Refuse,
    };
    Verdict { answer, turn }
}

fn is_counted(counter: &Counter) -> bool {
    counter.is_counted.load(Ordering::Relaxed)
}

/// v1 to v3: the first collective tells of which communicator the rank is.
fn learn(counter: &Counter, event: &Start<Name<'_>>) -> Option<(u64, Switch)> {
    let Body::Coll(coll) = &event.body else {
        return None;
    };
    if coll.comm_hash == 0 || !is_counted(counter) {
        return None;
    }
    counter.hash.store(coll.comm_hash, Ordering::Relaxed);
    let _known =
        LEAD_HASH.compare_exchange(0, coll.comm_hash, Ordering::Relaxed, Ordering::Relaxed);
    let is_over = !counter.may_lead() && counter.count(false);
    (is_over && is_windowed()).then(|| {
        let is_open = counter.is_open.load(Ordering::Relaxed);
        (event.context, counter.turn(is_open))
    })
}

/// Begins: no communicator yet, and the windows that the job was started with.
pub(super) fn begin(table: u8, windows: &Windows) {
    TABLE.store(table, Ordering::Relaxed);
    for counter in &ALL {
        counter.context.store(0, Ordering::Relaxed);
        counter.is_counted.store(false, Ordering::Relaxed);
    }
    LEAD_HASH.store(0, Ordering::Relaxed);
    OPEN.store(0, Ordering::Relaxed);
    set_windows(windows);
}

/// What of the wanted is told in turns.
pub(super) fn set_events(events: u32) {
    EVENTS.store(events, Ordering::Relaxed);
}

/// Puts other windows into force. Communicators that were used before are cut at another place on each rank.
pub(super) fn set_windows(windows: &Windows) {
    let spans = windows.spans().iter().map(|span| span.word());
    for (word, new) in WINDOWS.iter().zip(spans.chain(std::iter::repeat(0))) {
        word.store(new, Ordering::Relaxed);
    }
    for counter in ALL.iter().filter(|counter| is_counted(counter)) {
        if counter.started.load(Ordering::Relaxed) > 0 {
            counter.is_exact.store(false, Ordering::Relaxed);
        }
        if windows.is_empty() && !counter.is_open.swap(true, Ordering::Relaxed) {
            OPEN.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts for a communicator that begins. Of more than there is room for, the last ones are not counted.
pub(super) fn begin_rank(context: ContextId) {
    let place = usize::try_from(context.sequence()).unwrap_or(0) % COUNTERS;
    if let Some(free) = ALL.get(place)
        && free.context.load(Ordering::Relaxed) == 0
    {
        free.begin(context.get(), !is_windowed() || is_inside(1));
    }
}

/// A communicator ends.
pub(super) fn end_rank(context: u64) {
    if let Some(counter) = counter(context) {
        let _was_counted = counter.count(false);
        counter.context.store(0, Ordering::Release);
    }
}

/// Lets windows count a rank, or no longer. What there is to record of it.
pub(super) fn count(context: u64, is_counted: bool) -> Option<Switch> {
    let counter = counter(context)?;
    let is_new = counter.started.load(Ordering::Relaxed) == 0;
    if !counter.count(is_counted) || !is_windowed() {
        return None;
    }
    let is_open = counter.is_open.load(Ordering::Relaxed);
    // Until now nothing was said of it.
    let was_open = (is_counted && is_new) || is_open;
    Some(counter.turn(was_open))
}

/// Whether a rank may be of the communicator that is counted, where only descriptors tell.
pub(super) fn may_lead(context: u64) -> bool {
    counter(context).is_some_and(Counter::may_lead)
}

/// Where only descriptors tell: when all ranks of the counted communicator have ended, the first that lives is counted.
pub(super) fn settle_lead(live: impl Iterator<Item = u64> + Clone) {
    let hashes = live.filter_map(|context| {
        let hash = counter(context)?.hash.load(Ordering::Relaxed);
        (hash != 0).then_some(hash)
    });
    let lead = LEAD_HASH.load(Ordering::Relaxed);
    if !hashes.clone().any(|hash| hash == lead) {
        LEAD_HASH.store(hashes.clone().next().unwrap_or(0), Ordering::Relaxed);
    }
}
