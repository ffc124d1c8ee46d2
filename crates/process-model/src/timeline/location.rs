//! Locations of a process: what each represents, and which of its siblings an interval goes to.
//!
//! * **threads**: calls nest by construction. A call that would outlast the call around it is cut there.
//! * **all others**: intervals follow each other. An interval that starts before the location is free goes to the
//!   lowest free sibling (`#2`, `#3`, …). Intervals come by start, so this needs the fewest locations.

use crate::links::gpu_work::GpuStream;
use nccl_events::Kind;
use nccl_events::ids::{index, index_u32};
use rustc_hash::FxHashMap;
use tables::communicators::Comms;

/// What a location represents. Locations are ordered by [`LocationKey::position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocationKey {
    /// A thread that called NCCL, by index in the list of such threads (first event first).
    Thread(u32),
    /// A proxy thread between transfers, by index in [`tables::Tables::threads`].
    Proxy(u32),
    /// A rank of a communicator, by index of the context.
    Communicator(u32),
    Stream(GpuStream),
    Channel(Owner, u8),
    /// A network connection of a rank: channel, whether it sends, peer.
    Net(Owner, u8, bool, i32),
    /// A slot of a connection, which has one step in progress at a time.
    Step(Owner, u8, bool, i32, u8),
    /// The network plugin's work for a slot.
    Plugin(Owner, u8, bool, i32, u8),
    /// The started ranges of a domain, by index in [`job::ranges::RangeLinks::domains`].
    Ranges(u32),
}

/// The owner of a location: a context of this process, of another (PXN), or one whose beginning was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// An index in [`tables::Tables::contexts`].
    Context(u32),
    /// The context that NCCL gave for another process's operation, or for one whose beginning was lost.
    Foreign(u64),
}

impl Owner {
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }
}

/// The order of locations within a process: threads, started ranges, communicators, CUDA streams, channels, network;
/// within each by communicator, rank, channel, direction, peer and slot. Contexts come in order of arrival, which
/// differs from run to run, so they only break ties.
pub type Position = (u8, Whose, u8, bool, i32, u8);

/// Communicator and rank, foreign ones last; then context, thread (proxy threads after calling threads) or domain.
pub type Whose = (u32, u32, u64);

impl LocationKey {
    /// The kind of event that the location exists for: a level without the kind has no such location.
    pub const fn kind(self) -> Kind {
        match self {
            // These are not specific to a kind of event; each has an option of its own.
            Self::Thread(_) | Self::Communicator(_) | Self::Stream(_) | Self::Ranges(_) => Kind::Coll,
            Self::Proxy(_) => Kind::ProxyCtrl,
            Self::Channel(..) => Kind::KernelCh,
            Self::Net(..) => Kind::ProxyOp,
            Self::Step(..) => Kind::ProxyStep,
            Self::Plugin(..) => Kind::NetPlugin,
        }
    }

    pub fn position(self, comms: &Comms) -> Position {
        let whose = |owner| match owner {
            Owner::Context(context) => match comms.member(context) {
                Some(member) => (member.comm, member.rank, u64::from(context)),
                None => (u32::MAX, 0, u64::from(context)),
            },
            Owner::Foreign(id) => (u32::MAX, u32::MAX, id),
        };
        match self {
            Self::Thread(number) => (0, (0, 0, u64::from(number)), 0, false, 0, 0),
            Self::Proxy(thread) => (0, (1, 0, u64::from(thread)), 0, false, 0, 0),
            Self::Ranges(domain) => (0, (2, 0, u64::from(domain)), 0, false, 0, 0),
            Self::Communicator(context) => (1, whose(Owner::Context(context)), 0, false, 0, 0),
            Self::Stream(GpuStream { ordinal, context, stream }) => {
                (2, (ordinal, context, stream.into()), 0, false, 0, 0)
            }
            Self::Channel(owner, channel) => (3, whose(owner), channel, false, 0, 0),
            Self::Net(owner, channel, send, peer) => (4, whose(owner), channel, send, peer, 0),
            Self::Step(owner, channel, send, peer, slot) => (4, whose(owner), channel, send, peer, 2 * slot + 1),
            Self::Plugin(owner, channel, send, peer, slot) => (4, whose(owner), channel, send, peer, 2 * slot + 2),
        }
    }
}

/// Assigns intervals, which come by start, to free siblings: 0 is the location itself, 1 its sibling `#2`.
#[derive(Debug, Default)]
pub struct Siblings {
    free_from: Vec<u64>,
}

impl Siblings {
    pub fn free_from(&self) -> u64 {
        self.free_from.first().copied().unwrap_or(0)
    }

    /// Takes the lowest sibling that is free at `start`, until `end`.
    #[inline]
    pub fn take(&mut self, start: u64, end: u64) -> usize {
        let sibling = self.free_from.iter().position(|&from| from <= start).unwrap_or(self.free_from.len());
        match self.free_from.get_mut(sibling) {
            Some(from) => *from = end,
            None => self.free_from.push(end),
        }
        sibling
    }
}

/// Items by location. Events mostly arrive in time order, so each location is nearly sorted.
#[derive(Debug)]
pub struct ByLocation<T> {
    numbers: FxHashMap<LocationKey, u32>,
    locations: Vec<(LocationKey, Vec<T>)>,
}

impl<T: Ord> ByLocation<T> {
    pub(crate) fn new() -> Self {
        Self { numbers: FxHashMap::default(), locations: Vec::new() }
    }

    pub fn add(&mut self, key: LocationKey, one: T) {
        let next = index_u32(self.locations.len());
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.locations.push((key, Vec::new()));
        }
        if let Some((_, all)) = self.locations.get_mut(index(number)) {
            all.push(one);
        }
    }

    /// The locations in order, each with its items in order.
    pub fn in_order(self) -> Vec<(LocationKey, Vec<T>)> {
        let mut locations = self.locations;
        nccl_events::sort::sort_by_key(&mut locations, |(key, _)| *key);
        for (_, all) in &mut locations {
            // A stable sort is faster on sorted runs.
            all.sort();
        }
        locations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_goes_to_the_lowest_free_sibling() {
        let mut siblings = Siblings::default();
        let locations: Vec<usize> = [(0, 10), (2, 4), (3, 5), (4, 20), (10, 12)]
            .iter()
            .map(|&(start, end)| siblings.take(start, end))
            .collect();
        assert_eq!(locations, [0, 1, 2, 1, 0]);
    }
}
