//! What a thread calls: regions on its own row.
//!
//! A region is entered and left inside of one call of NCCL's, never across a return to the program: there the program's
//! own regions begin and end as it likes, and Score-P ends a program whose regions do not nest. So a user's group is
//! shown by its end only. Inside there are two levels, what is called and what that does; a region that NCCL did not
//! report the end of is closed by the next of its level.

use std::cell::Cell;

use super::guard::Measured;
use super::presence::Tier;
use super::regions::{Attribute, CallRegion, Function, Other, element_bytes};
use super::setup::Ready;
use crate::event::Body;

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
    /// The end of a user's group.
    pub(super) const GROUP_END: Self = Self {
        region: CallRegion::Other(Other::GroupEnd),
        level: Level::Outer,
        bytes: 0,
    };

    /// The call that an event stands for. None for a user's group, and for what is no call.
    pub(super) fn of(body: &Body<'_>) -> Option<Self> {
        let inner = |region, bytes| Self {
            region,
            level: Level::Inner,
            bytes,
        };
        Some(match *body {
            // Deeper ones are the user's: they last until the user ends them.
            Body::GroupApi { depth, .. } if depth <= 1 => Self {
                region: CallRegion::Other(Other::Group),
                level: Level::Outer,
                bytes: 0,
            },
            Body::CollApi {
                func,
                count,
                datatype,
                ..
            }
            | Body::P2pApi {
                func,
                count,
                datatype,
                ..
            } => {
                let bytes = count.saturating_mul(element_bytes(datatype.bytes()));
                inner(CallRegion::Of(Function::named(func.bytes())), bytes)
            }
            Body::KernelLaunch { .. } => inner(CallRegion::Other(Other::Launch), 0),
            Body::Group => inner(CallRegion::Other(Other::Plan), 0),
            _ => return None,
        })
    }
}

/// The regions of this thread that are open.
#[derive(Clone, Copy)]
struct Open {
    outer: Option<Entered>,
    inner: Option<Entered>,
    /// The user's group that this thread is in; 0 for none.
    users_group: u64,
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
        Cell::new(Open { outer: None, inner: None, users_group: 0 })
    };
}

/// The calling thread is in a group of the user's from here on.
pub(super) fn users_group(event: u64) {
    let open = OPEN.get();
    OPEN.set(Open {
        users_group: event,
        ..open
    });
}

/// Whether this is the user's group that the calling thread is in.
pub(super) fn is_users_group(event: u64) -> bool {
    event != 0 && OPEN.get().users_group == event
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
        open.users_group = 0;
    }
    OPEN.set(open);
    closed
}

/// Takes a region for closed that cannot be left any more.
pub(super) fn forget(event: u64) {
    let mut open = OPEN.get();
    if Entered::is(open.outer, event) {
        open.outer = None;
        open.users_group = 0;
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
