//! What a thread calls: regions on its own row.
//!
//! A region is entered and left inside of one call of NCCL's, never across a return to the program: there the program's
//! own regions begin and end as it likes, and Score-P ends a program whose regions do not nest. So of a group only its end
//! is shown, which does the work: NCCL tells of implicit groups and the user's alike, and not which one it is where
//! groups are nested. There are two levels, what is called and what that does; a region that NCCL did not report the
//! end of is closed by the next of its level or above.

use nccl_events::{Name, event};
use std::cell::Cell;

use super::guard::Measured;
use super::presence::Tier;
use super::regions::{Attribute, CallRegion, Function, Other, element_bytes};
use super::setup::Ready;
use nccl_events::Body;

/// A region to enter.
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
    /// The end of a group.
    pub(super) const GROUP_END: Self = Self {
        region: CallRegion::Other(Other::GroupEnd),
        level: Level::Outer,
        bytes: 0,
    };

    /// The call that an event stands for. None for what is no call, and for a group, which lasts until its end.
    pub(super) fn of(body: &Body<Name<'_>>) -> Option<Self> {
        let other = |other| Self {
            region: CallRegion::Other(other),
            level: Level::Inner,
            bytes: 0,
        };
        Some(match *body {
            Body::CollApi(event::CollApi {
                func,
                count,
                datatype,
                ..
            })
            | Body::P2pApi(event::P2pApi {
                func,
                count,
                datatype,
                ..
            }) => Self {
                region: CallRegion::Of(Function::named(func.bytes())),
                level: Level::Outer,
                bytes: count.saturating_mul(element_bytes(datatype.bytes())),
            },
            Body::KernelLaunch(event::KernelLaunch { .. }) => other(Other::Launch),
            Body::Group(event::Group {}) => other(Other::Plan),
            _ => return None,
        })
    }
}

/// The regions of this thread that are open.
#[derive(Clone, Copy)]
struct Open {
    outer: Option<Entered>,
    inner: Option<Entered>,
}

#[derive(Clone, Copy)]
struct Entered {
    event: u64,
    region: CallRegion,
}

impl Entered {
    const fn is(entered: Option<Self>, event: u64) -> bool {
        match entered {
            Some(entered) => entered.event == event,
            None => false,
        }
    }
}

thread_local! {
    static OPEN: Cell<Open> = const {
        Cell::new(Open { outer: None, inner: None })
    };
}

/// Whether the event is a region of the calling thread that is open.
pub(super) fn is_open(event: u64) -> bool {
    let open = OPEN.get();
    Entered::is(open.inner, event) || Entered::is(open.outer, event)
}

/// Enters a region. How many had to be closed for that, their end being unknown.
pub(super) fn enter(measured: &Measured<'_>, ready: &Ready, event: u64, call: Call) -> u64 {
    let mut open = OPEN.get();
    let mut closed = u64::from(close(measured, ready, open.inner.take()));
    if call.level == Level::Outer {
        closed += u64::from(close(measured, ready, open.outer.take()));
    }
    let region = call.region;
    let entered = Some(Entered { event, region });
    match call.level {
        Level::Outer => open.outer = entered,
        Level::Inner => open.inner = entered,
    }
    // Before it is entered: this is asked again should Score-P call us back.
    OPEN.set(open);
    match measured.tier() {
        Tier::Internal(_) => {
            if let (Some(functions), Some(made)) = (measured.internal(), &ready.internal) {
                if call.bytes > 0 {
                    functions.add_number(made.attribute(Attribute::Bytes), call.bytes);
                }
                functions.enter(made.call(region));
            }
        }
        Tier::User(user) => {
            let (handle, name) = ready.user(region);
            measured.user_begin(user, handle, name);
        }
    }
    closed
}

/// Leaves the region of an event. How many inside of it had to be closed, their end being unknown.
pub(super) fn leave(measured: &Measured<'_>, ready: &Ready, event: u64) -> u64 {
    let mut open = OPEN.get();
    let mut closed = 0;
    if Entered::is(open.inner, event) {
        close(measured, ready, open.inner.take());
    } else if Entered::is(open.outer, event) {
        closed = u64::from(close(measured, ready, open.inner.take()));
        close(measured, ready, open.outer.take());
    }
    OPEN.set(open);
    closed
}

/// Takes a region for closed that cannot be left any more.
pub(super) fn forget(event: u64) {
    let mut open = OPEN.get();
    if Entered::is(open.outer, event) {
        open.outer = None;
        open.inner = None;
    } else if Entered::is(open.inner, event) {
        open.inner = None;
    }
    OPEN.set(open);
}

fn close(measured: &Measured<'_>, ready: &Ready, entered: Option<Entered>) -> bool {
    let Some(Entered { region, .. }) = entered else {
        return false;
    };
    match measured.tier() {
        Tier::Internal(_) => {
            if let (Some(functions), Some(made)) = (measured.internal(), &ready.internal) {
                functions.exit(made.call(region));
            }
        }
        Tier::User(user) => measured.user_end(user, ready.user(region).0),
    }
    true
}
