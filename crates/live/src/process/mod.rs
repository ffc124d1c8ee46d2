//! The records of one process that are not in the sums yet: events that have not ended, and what they refer to.
//!
//! ```text
//!  records ─► calls                     what operations refer to
//!          ├► operations ◄┬─ network    proxy operations with their steps ─┐
//!          │              └─ gpu        kernel channels                    │
//!          └► settle: completed operations ─► sums ◄── steps that ended
//! ```
//!
//! Records of different slots come in any order: a child may be read before its parent. So an id whose start is still
//! to come ([`SeenIds`]) gets an empty entry, which later records fill in.

use std::collections::VecDeque;

use crate::snapshot::Rank;
use crate::sums::Sums;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Collective, element_bytes};
use nccl_events::ids::{EventId, index};
use rustc_hash::FxHashMap;

mod calls;
mod gpu;
mod network;
mod operations;
mod settle;

pub(crate) use crate::process::gpu::{GpuWork, Kernels, RecentBounds};
pub(crate) use crate::process::operations::{OpenEvents, Recorder};
pub(crate) use crate::process::settle::Until;

/// The state of an event that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// The start has not been read yet: slots are read one after the other.
    NotStarted,
    /// The event is over, or its start was lost.
    Ended,
    Foreign,
}

/// Which events of a process have been seen: ids count up within their slot.
#[derive(Debug, Default)]
pub(crate) struct SeenIds {
    tag: u16,
    last: Vec<u64>,
}

impl SeenIds {
    pub(crate) fn new(tag: u16) -> Self {
        Self { tag, last: Vec::new() }
    }

    #[inline]
    pub(crate) fn note(&mut self, id: u64) -> bool {
        let id = EventId::from_raw(id);
        let slot = usize::from(id.slot());
        if slot >= self.last.len() {
            self.last.resize(slot + 1, 0);
        }
        let last = self.last.get_mut(slot);
        last.is_some_and(|last| {
            let is_new = id.sequence() > *last;
            *last = id.sequence().max(*last);
            is_new
        })
    }

    #[inline]
    pub(crate) fn lifecycle(&self, id: u64) -> Lifecycle {
        let id = EventId::from_raw(id);
        if id.tag() != self.tag || id.is_none() {
            return Lifecycle::Foreign;
        }
        let last = self.last.get(usize::from(id.slot())).copied().unwrap_or(0);
        if id.sequence() > last { Lifecycle::NotStarted } else { Lifecycle::Ended }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) name: Symbol,
    pub(crate) collective: Option<Collective>,
}

/// Meanings of the strings of a process. Every operation repeats the same few.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    functions: FxHashMap<(Symbol, bool), Function>,
    algorithms: FxHashMap<(Symbol, Symbol), Symbol>,
    elements: FxHashMap<Symbol, u64>,
}

impl Meanings {
    pub(crate) fn function(
        &mut self,
        func: Symbol,
        is_by_copy_engines: bool,
        (symbols, sums): (&Symbols, &mut Sums),
    ) -> Function {
        *self.functions.entry((func, is_by_copy_engines)).or_insert_with(|| {
            let text = symbols.text(func);
            let suffix = if is_by_copy_engines { " (CE)" } else { "" };
            Function { name: sums.name(&format!("nccl{text}{suffix}")), collective: Collective::named(text) }
        })
    }

    pub(crate) fn algorithm(
        &mut self,
        (algorithm, protocol): (Symbol, Symbol),
        (symbols, sums): (&Symbols, &mut Sums),
    ) -> Symbol {
        *self.algorithms.entry((algorithm, protocol)).or_insert_with(|| {
            let texts = [symbols.text(algorithm), symbols.text(protocol)];
            let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            sums.name(&texts.join("_"))
        })
    }

    pub(crate) fn element_bytes(&mut self, datatype: Symbol, symbols: &Symbols) -> u64 {
        *self.elements.entry(datatype).or_insert_with(|| element_bytes(symbols.text(datatype)))
    }
}

/// How many ids of removed items may be kept beyond twice the number of items.
const MOST_REMOVED: usize = 1 << 10;

/// Items by id, kept until they are removed or grow old.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    all: FxHashMap<u64, T>,
    /// Time and id of each item, including removed ones.
    order: VecDeque<(u64, u64)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { all: FxHashMap::default(), order: VecDeque::new() }
    }
}

impl<T> Kept<T> {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.all.get_mut(&id)
    }

    pub(crate) fn get_or(&mut self, id: u64, ticks: u64, new: impl FnOnce() -> T) -> &mut T {
        self.all.entry(id).or_insert_with(|| {
            self.order.push_back((ticks, id));
            new()
        })
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let removed = self.all.remove(&id);
        while let Some((_, id)) = self.order.front()
            && !self.all.contains_key(id)
        {
            self.order.pop_front();
        }
        removed
    }

    /// The oldest item, if older than `before`. The caller must remove it or keep it again.
    pub(crate) fn oldest(&mut self, before: u64) -> Option<u64> {
        // Removed items pile up behind one that is kept for long.
        if self.order.len() > 2 * self.all.len() + MOST_REMOVED {
            self.order.retain(|(_, id)| self.all.contains_key(id));
        }
        while let Some((_, id)) = self.order.pop_front_if(|(since, _)| *since < before) {
            if self.all.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn keep_again(&mut self, id: u64, ticks: u64) {
        self.order.push_back((ticks, id));
    }
}

impl OpenEvents {
    /// The process's ranks in a snapshot.
    pub(crate) fn ranks(&self, process: usize, symbols: &Symbols) -> Vec<Rank> {
        let realtime_ns = |ticks: u64| self.clock.realtime_ns(self.clock.ns(ticks));
        let ranks = self.contexts.all.iter().filter_map(|context| {
            let member = context.member?;
            let started = context.queue.iter().chain(context.coming.iter().map(|(_, id)| id)).filter_map(|id| {
                let operation = self.operations.get(*id)?;
                let is_at_capture = operation.call.is_some_and(|call| call.is_at_capture);
                operation.started.filter(|_| !operation.has_ended() && !is_at_capture)
            });
            let (mut open, mut oldest) = (0, None);
            for started in started {
                open += 1;
                oldest = match oldest {
                    Some((since, _)) if since <= started.start => oldest,
                    _ => Some((started.start, started.func)),
                };
            }
            Some(Rank {
                communicator: index(member.communicator),
                rank: member.rank,
                process,
                is_finalized: context.is_finalized,
                last_event_ns: (context.last > 0).then(|| realtime_ns(context.last)),
                open,
                oldest: oldest.map(|(since, func)| (format!("nccl{}", symbols.text(func)), realtime_ns(since))),
                last: 0,
                caused_waiting_ns: 0,
            })
        });
        ranks.collect()
    }
}
