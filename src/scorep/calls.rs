//! NCCL calls, as regions on the location of the calling thread.
//!
//! A region is entered and left inside one NCCL call, never across a return to the program: the program enters and
//! leaves its own regions there, and Score-P ends a program whose regions do not nest. So only the end of a group,
//! which does the work, becomes a region: NCCL reports implicit groups like the user's, and does not identify the group
//! when groups are nested. There are two levels: the call, and what the call does. If NCCL does not report a region's
//! end, the next region of the same or the outer level closes it.

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
    /// The plugin's part of making a communicator, for which NCCL waits.
    pub(super) const COMM_INIT: Self = Self::other(Other::CommInit, Level::Inner);
    pub(super) const COMM_DESTROY: Self = Self::other(Other::CommDestroy, Level::Inner);
    pub(super) const GROUP_END: Self = Self::other(Other::GroupEnd, Level::Outer);

    const fn other(other: Other, level: Level) -> Self {
        Self { region: CallRegion::Other(other), level, bytes: 0 }
    }

    pub(super) const fn region(&self) -> CallRegion {
        self.region
    }

    /// The call of an event; `None` for an event that is not a call, and for a group, whose end alone is a region.
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
            Body::GroupApi(_) | Body::Coll(_) | Body::P2p(_) | Body::CeColl(_) | Body::CeSync(_) => return None,
            Body::CeBatch(_) | Body::ProxyOp(_) | Body::ProxyStep(_) | Body::ProxyCtrl(_) => return None,
            Body::NetPlugin(_) | Body::KernelCh(_) | Body::KernelPhase(_) | Body::Unknown(_) => return None,
        })
    }
}

/// A thread's open regions, by [`Level`].
type Open = [Option<Entered>; 2];

#[derive(Clone, Copy)]
struct Entered {
    event: u64,
    region: CallRegion,
}

thread_local! {
    static OPEN: Cell<Open> = const { Cell::new([None; 2]) };
}

fn level_of(open: &Open, event: u64) -> Option<usize> {
    open.iter().position(|entered| entered.is_some_and(|entered| entered.event == event))
}

pub(super) fn is_open(event: u64) -> bool {
    level_of(&OPEN.get(), event).is_some()
}

/// Enters a region; returns how many regions had to be closed first because their end is unknown.
pub(super) fn enter(measured: &Measured<'_>, setup: &Setup, event: u64, call: Call) -> u64 {
    let mut open = OPEN.get();
    let level = call.level as usize;
    let closed = close_from(measured, setup, &mut open, level);
    let region = call.region;
    if let Some(place) = open.get_mut(level) {
        *place = Some(Entered { event, region });
    }
    // Before entering, because Score-P may call back.
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

/// Leaves an event's region; returns how many regions inside it had to be closed.
pub(super) fn leave(measured: &Measured<'_>, setup: &Setup, event: u64) -> u64 {
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
fn close_from(measured: &Measured<'_>, setup: &Setup, open: &mut Open, level: usize) -> u64 {
    let mut closed = 0;
    for Entered { region, .. } in open.iter_mut().skip(level).rev().filter_map(Option::take) {
        closed += 1;
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
    }
    closed
}
