//! Copies sums into a snapshot.

use nccl_events::ids::{index, index_u32};

use super::Sums;
use super::communicators::{Member, OTHER, ranks};
use crate::snapshot::{Channel, CollectiveSkew, Communicator, Operation, Pair, Proxy, Snapshot};

fn place_of_other(snapshot: &mut Snapshot) -> usize {
    let place = snapshot.communicators.len();
    snapshot.communicators.push(Communicator { name: "other".to_owned(), ..Communicator::default() });
    place
}

impl Sums {
    /// Copies the sums into a snapshot and begins the next interval.
    pub(crate) fn report(&mut self, snapshot: &mut Snapshot) {
        let communicators = self.communicators.all.iter().map(|it| Communicator {
            name: it.name(),
            ranks: ranks(it),
            here: index_u32(it.members.len()),
            nodes: Some(it.comm.nodes).filter(|nodes| *nodes > 0),
        });
        snapshot.communicators = communicators.collect();
        snapshot.folded = self.budget.folded();
        let other = if snapshot.folded > 0 { place_of_other(snapshot) } else { 0 };
        let place = |communicator: u32| if communicator == OTHER { other } else { index(communicator) };
        let names = &self.names;
        let operations = self.operations.0.all.iter_mut().map(|(key, sum)| Operation {
            communicator: place(key.member.communicator),
            rank: key.member.rank,
            function: names.text(key.function).to_owned(),
            is_point_to_point: key.is_point_to_point,
            peer: key.peer,
            size_class: key.size_class,
            timing: key.timing,
            algorithm: names.text(key.algorithm).to_owned(),
            count: sum.count,
            bytes: sum.bytes,
            duration: sum.duration.clone(),
            window: sum.end_window(),
        });
        snapshot.operations = operations.collect();
        // NCCL before 2.27 reports no sizes: steps are not known then.
        let pairs = self.network.pairs.all.iter_mut().filter(|(_, sum)| sum.steps > 0).map(|((from, to), sum)| {
            let (all, least, rate) = sum.end_window();
            let communicator = place(from.communicator);
            Pair { communicator, from: from.rank, to: *to, steps: sum.steps, bytes: sum.bytes, all, least, rate }
        });
        snapshot.pairs = pairs.collect();
        let channels = self.network.connections.all.iter().filter(|(_, sum)| sum.steps > 0).map(|(key, sum)| Channel {
            communicator: place(key.member.communicator),
            rank: key.member.rank,
            channel: key.channel,
            peer: key.peer,
            is_send: key.is_send,
            ..sum.clone()
        });
        snapshot.channels = channels.collect();
        let proxies = self.network.proxies.all.iter().map(|(member, sum)| Proxy {
            communicator: place(member.communicator),
            rank: member.rank,
            ..sum.clone()
        });
        snapshot.proxies = proxies.collect();
        let skews = self.skews.all.all.iter().map(|(communicator, skew)| CollectiveSkew {
            communicator: place(*communicator),
            count: skew.count(),
            skew: skew.clone(),
        });
        snapshot.skews = skews.collect();
        for rank in &mut snapshot.ranks {
            let late = self.skews.late.get(&Member { communicator: index_u32(rank.communicator), rank: rank.rank });
            rank.last = late.map_or(0, |late| late.last);
            rank.caused_waiting_ns = late.map_or(0, |late| late.caused_waiting_ns);
        }
    }
}
