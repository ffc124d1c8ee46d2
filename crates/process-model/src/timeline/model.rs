//! What is known about a process before its timeline is built: links, communicators, clocks and intervals.

use std::collections::BTreeSet;

use crate::links::Links;
use crate::links::collective::meanings::Meanings;
use crate::links::gpu_clocks::gpu_clocks;
use crate::links::interval::{Interval, intervals};
use crate::links::pxn::RemoteTransfers;
use crate::timeline::location::Owner;
use clocks::gpu::GpuClock;
use journal::part::environment::ArchiveOptions;
use journal::reader::Symbols;
use nccl_events::MOST_RANKS;
use nccl_events::ids::index;
use tables::communicators::{Comms, callers};
use tables::{Event, EventRow, Head, ProxyOp, ProxyStep, Row, Tables, ThreadKey};

/// A rank in its communicator, for communication records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicatorMember {
    /// The part's number of the communicator.
    pub comm: u32,
    pub rank: u32,
    /// Number of ranks, as far as this process knows.
    pub ranks: u32,
    pub knows_ranks: bool,
}

impl CommunicatorMember {
    /// The number of ranks that the bytes of a collective record cover. 1 if the size is unknown: another process may
    /// have seen other ranks, and the records of all members must fit together.
    pub fn ranks_in_bytes(&self) -> u64 {
        if self.knows_ranks { self.ranks.into() } else { 1 }
    }

    /// Whether the communicator can have this rank. One of unknown size can have more than this process has seen, but
    /// not if what NCCL states of it is impossible.
    pub fn may_have(&self, rank: u32) -> bool {
        if self.knows_ranks { rank < self.ranks } else { self.ranks > 0 && rank < MOST_RANKS }
    }
}

/// The interpretation of a process's events, and when its operations ran.
#[derive(Debug)]
pub struct ProcessModel<'a> {
    pub tables: &'a Tables,
    pub symbols: &'a Symbols,
    pub meanings: Meanings,
    pub links: Links,
    pub comms: Comms,
    /// The clocks of the GPUs, by index of the context.
    pub gpu_clocks: Vec<GpuClock>,
    /// When operations ran, by index of the activity.
    pub intervals: Vec<Option<Interval>>,
    pub callback_threads: BTreeSet<ThreadKey>,
    pub options: ArchiveOptions,
}

impl<'a> ProcessModel<'a> {
    /// Computes links, communicators, clocks and intervals. Times must already be nanoseconds; `remote` is what other
    /// processes did for this one.
    pub fn of(tables: &'a Tables, symbols: &'a Symbols, remote: &[RemoteTransfers], options: ArchiveOptions) -> Self {
        let links = Links::of(tables, symbols, remote);
        let comms = Comms::of(tables, &links.gpu.devices);
        let gpu_clocks = gpu_clocks(tables, &links, &comms);
        let intervals = intervals(tables, &links.activities, &links.gpu, &gpu_clocks);
        Self {
            tables,
            symbols,
            meanings: Meanings::of(symbols),
            links,
            comms,
            gpu_clocks,
            intervals,
            callback_threads: callers::callback_threads(tables),
            options,
        }
    }

    pub fn interval(&self, activity: u32) -> Option<Interval> {
        self.intervals.get(index(activity)).copied().flatten()
    }

    /// When an event stopped; the last time seen if it did not stop.
    #[inline]
    pub fn end(&self, event: &Head) -> u64 {
        event.stop().unwrap_or_else(|| self.tables.span.1.max(event.start))
    }

    /// When a step ended, reported or inferred.
    pub fn step_end(&self, row: Row<ProxyStep>) -> Option<u64> {
        self.links.inferred_ends.steps.get(&row).copied().or(self.tables[row].stop())
    }

    /// Whether an event never stopped, although NCCL would have reported the stop.
    pub fn is_unfinished(&self, event: EventRow) -> bool {
        let head = self.tables.head(event);
        let is_reported = || match event {
            EventRow::ProxyOp(row) => self.links.transfers.is_silent(row),
            EventRow::ProxyStep(row) => self.links.inferred_ends.steps.contains_key(&row),
            EventRow::ProxyCtrl(row) => self.links.inferred_ends.controls.contains_key(&row),
            _ => false,
        };
        head.is_some_and(|head| head.stop().is_none()) && !is_reported()
    }

    /// The communicator member that took part in an operation, or that a transfer belongs to.
    #[inline]
    pub fn member_of(&self, event: &Head) -> Option<CommunicatorMember> {
        let member = self.comms.member(event.context_at()?)?;
        let comm = self.comms.comm(member)?;
        Some(CommunicatorMember {
            comm: member.comm,
            rank: member.rank,
            ranks: if comm.ranks > 0 { comm.ranks } else { comm.ranks_seen },
            knows_ranks: comm.ranks > 0,
        })
    }

    pub fn owner(&self, event: &Head) -> Owner {
        let foreign = || Owner::Foreign(self.tables.context_of(event));
        event.context_at().map_or_else(foreign, Owner::Context)
    }

    #[inline]
    pub fn owner_of_transfer(&self, op: &Event<ProxyOp>) -> Owner {
        if self.tables.names_another_process(op) {
            return Owner::Foreign(self.tables.context_of(op));
        }
        self.owner(op)
    }
}
