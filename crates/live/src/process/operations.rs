//! Open operations, with what their children show.

use job::has_ended;
use journal::format::Symbol;
use nccl_events::{Body, Start};
use rustc_hash::FxHashMap;

use super::calls::OfCall;
use super::ids::{Lifecycle, SeenIds};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) start: u64,
    /// When the kernel was enqueued: the start of the launch plan.
    pub(crate) enqueued: u64,
    pub(crate) thread: u32,
    pub(crate) parent: u64,
    /// The launch plan (one kernel); 0 if there is none.
    pub(crate) plan: u64,
    pub(crate) func: Symbol,
    pub(crate) datatype: Symbol,
    pub(crate) count: u64,
    pub(crate) is_by_copy_engines: bool,
    pub(crate) details: Details,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Details {
    Collective { sequence: u64, root: i32, algorithm: Symbol, protocol: Symbol },
    PointToPoint { peer: i32 },
}

impl Started {
    pub(crate) fn of(thread: u32, ticks: u64, start: &Start<Symbol>) -> Option<Self> {
        let (func, datatype, count, plan, details) = match start.body {
            Body::Coll(coll) => {
                let (sequence, root) = (coll.sequence, coll.root);
                let details =
                    Details::Collective { sequence, root, algorithm: coll.algorithm, protocol: coll.protocol };
                (coll.func, coll.datatype, coll.count, coll.parent_group, details)
            }
            Body::P2p(p2p) => {
                (p2p.func, p2p.datatype, p2p.count, p2p.parent_group, Details::PointToPoint { peer: p2p.peer })
            }
            Body::CeColl(coll) => {
                let (algorithm, protocol) = (Symbol::NONE, Symbol::NONE);
                let details = Details::Collective { sequence: coll.sequence, root: coll.root, algorithm, protocol };
                (coll.func, coll.datatype, coll.count, 0, details)
            }
            _ => return None,
        };
        Some(Self {
            start: ticks,
            enqueued: ticks,
            thread,
            parent: start.parent,
            plan,
            func,
            datatype,
            count,
            is_by_copy_engines: matches!(start.body, Body::CeColl(_)),
            details,
        })
    }
}

/// An operation. Times are ticks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// `None` while only children were read.
    pub(crate) started: Option<Started>,
    pub(crate) stop: Option<u64>,
    pub(crate) open: u32,
    /// Proxy operations on connections that NCCL has never reported on.
    pub(crate) unreported: Vec<u64>,
    pub(crate) proxy_last: Option<u64>,
    /// The kernel's interval on the host, and on the GPU's timer.
    pub(crate) kernel_on_host: Option<(u64, u64)>,
    pub(crate) gpu: Option<(u64, u64)>,
    /// A stamp of the GPU's timer and a host time in ns that it was not after: the closest of several pairs.
    pub(crate) not_after: Option<(u64, u64)>,
    /// Ticks of the last record.
    pub(crate) last: u64,
    /// Derived from the call, once all threads were read up to the operation's start.
    pub(crate) call: Option<OfCall>,
    /// Number of kernel channels whose stamps have not been judged.
    pub(crate) unjudged: u32,
}

impl Operation {
    pub(crate) const fn has_times(&self) -> bool {
        self.proxy_last.is_some() || self.kernel_on_host.is_some()
    }

    pub(crate) const fn has_ended(&self) -> bool {
        has_ended(self.open > 0, self.stop.is_some(), self.has_times())
    }
}

pub(super) fn widen(interval: Option<(u64, u64)>, start: u64, stop: u64) -> Option<(u64, u64)> {
    Some(interval.map_or((start, stop), |(first, last)| (first.min(start), last.max(stop))))
}

#[derive(Debug, Default)]
pub(crate) struct Operations {
    all: FxHashMap<u64, Operation>,
    /// Events of operations that are over.
    pub(crate) late: u64,
}

impl Operations {
    /// The operation, marked as having a record at these ticks.
    pub(crate) fn touch(&mut self, id: u64, ticks: u64, seen: &SeenIds) -> Option<&mut Operation> {
        let operation = match self.all.contains_key(&id) {
            true => self.all.get_mut(&id)?,
            false if seen.lifecycle(id) == Lifecycle::NotStarted => self.all.entry(id).or_default(),
            false => {
                self.late += u64::from(seen.lifecycle(id) == Lifecycle::Ended);
                return None;
            }
        };
        operation.last = ticks.max(operation.last);
        Some(operation)
    }

    pub(crate) fn start(&mut self, id: u64, started: Started) -> &mut Operation {
        let operation = self.all.entry(id).or_default();
        operation.last = started.start.max(operation.last);
        operation.started = Some(started);
        operation
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Operation> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Operation> {
        self.all.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Operation> {
        self.all.remove(&id)
    }

    pub(crate) fn forget_unstarted(&mut self, before: u64, seen: &SeenIds) {
        let late = &mut self.late;
        self.all.retain(|id, operation| {
            let is_lost =
                operation.started.is_none() && operation.last < before && seen.lifecycle(*id) == Lifecycle::Ended;
            *late += u64::from(is_lost);
            !is_lost
        });
    }
}
