//! Calls of NCCL, as regions on the location of the calling thread.
//!
//! A region is entered and left inside one call of NCCL, never across a return to the program: the program enters and
//! leaves its own regions there, and Score-P ends a program whose regions do not nest. So only the end of a group
//! becomes a region, which does the work: NCCL reports implicit groups like the user's, and does not say which one it
//! is where groups are nested. There are two levels: the call, and what it does. If NCCL does not report the end of a
//! region, the next region of its level or above closes it.

use std::cell::Cell;

use super::guard::Measured;
use super::presence::Tier;
use super::regions::{Attribute, CallRegion, Function, Other};
use super::setup::Setup;
use nccl_events::collective::element_bytes;
use nccl_events::{Body, Name, event};

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
    /// The plugin's part of making a communicator, which NCCL waits for.
    pub(super) const COMM_INIT: Self = Self::other(Other::CommInit, Level::Inner);
    pub(super) const COMM_DESTROY: Self = Self::other(Other::CommDestroy, Level::Inner);
    pub(super) const GROUP_END: Self = Self::other(Other::GroupEnd, Level::Outer);

    const fn other(other: Other, level: Level) -> Self {
        Self { region: CallRegion::Other(other), level, bytes: 0 }
    }

    pub(super) const fn region(&self) -> CallRegion {
        self.region
    }

    /// The call of an event; `None` for an event that is no call, and for a group, of which only the end is a region.
    pub(super) fn of(body: &Body<Name<'_>>) -> Option<Self> {
        Some(match *body {
            Body::CollApi(event::CollApi { func, count, datatype, .. })
            | Body::P2pApi(event::P2pApi { func, count, datatype, .. }) => Self {
                region: CallRegion::Of(Function::named(func.bytes())),
                level: Level::Outer,
                bytes: count.saturating_mul(element_bytes(datatype.bytes())),
            },
            Body::KernelLaunch(_) => Self::other(Other::Launch, Level::Inner),
            Body::Group(_) => Self::other(Other::Plan, Level::Inner),
            _ => return None,
        })
    }
}

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

pub(super) fn is_open(event: u64) -> bool {
    let open = OPEN.get();
    Entered::is(open.inner, event) || Entered::is(open.outer, event)
}

/// Enters a region; returns the number of regions that had to be closed for it because their end is unknown.
pub(super) fn enter(measured: &Measured<'_>, setup: &Setup, event: u64, call: Call) -> u64 {
    let mut open = OPEN.get();
    let mut closed = u64::from(close(measured, setup, open.inner.take()));
    if call.level == Level::Outer {
        closed += u64::from(close(measured, setup, open.outer.take()));
    }
    let region = call.region;
    let entered = Some(Entered { event, region });
    match call.level {
        Level::Outer => open.outer = entered,
        Level::Inner => open.inner = entered,
    }
    // Before it is entered, because Score-P may call back.
    OPEN.set(open);
    match measured.tier() {
        Tier::Internal(_) => {
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
        Tier::User(user) => {
            let (handle, name) = setup.user(region);
            measured.user_begin(user, handle, name);
        }
    }
    closed
}

/// Leaves the region of an event; returns the number of regions inside it that had to be closed because their end is
/// unknown.
pub(super) fn leave(measured: &Measured<'_>, setup: &Setup, event: u64) -> u64 {
    let mut open = OPEN.get();
    let mut closed = 0;
    if Entered::is(open.inner, event) {
        close(measured, setup, open.inner.take());
    } else if Entered::is(open.outer, event) {
        closed = u64::from(close(measured, setup, open.inner.take()));
        close(measured, setup, open.outer.take());
    }
    OPEN.set(open);
    closed
}

/// Marks a region as closed that cannot be left any more.
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

fn close(measured: &Measured<'_>, setup: &Setup, entered: Option<Entered>) -> bool {
    let Some(Entered { region, .. }) = entered else {
        return false;
    };
    match measured.tier() {
        Tier::Internal(_) => {
            if let (Some(functions), Some(definitions)) = (measured.internal(), &setup.internal)
                && let Some(handle) = definitions.call(region)
            {
                functions.exit(handle);
            }
        }
        Tier::User(user) => measured.user_end(user, setup.user(region).0),
    }
    true
}
