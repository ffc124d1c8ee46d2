//! What is kept of the network: what each connection sent, and sums of the waits.

use std::collections::BTreeMap;

use super::classes::Classes;
use super::filter::Filter;
use super::instances::Instances;
use crate::report::Waits;
use crate::tables::{NONE, Network, Short, Step, Tables, Transfer};

/// Communicator, sender and receiver.
pub(super) type Pair = (u32, u32, u32);

/// A step that was sent: when it was handed to the network, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at_ns: u64,
    ns: Short,
    bytes: Short,
}

impl Sent {
    pub fn of(step: &Step) -> Self {
        Self { at_ns: step.sent_ns(), ns: step.third_ns.into(), bytes: step.bytes.into() }
    }

    pub fn ns(&self) -> u64 {
        self.ns.into()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    pub fn end_ns(&self) -> u64 {
        self.at_ns + self.ns()
    }
}

fn pair_of(tables: &Tables, transfer: &Transfer) -> Option<Pair> {
    if transfer.member == NONE || transfer.peer == NONE {
        return None;
    }
    let member = tables.members.row(transfer.member);
    Some(match transfer.is_send {
        true => (member.communicator, member.rank, transfer.peer),
        false => (member.communicator, transfer.peer, member.rank),
    })
}

/// Adds the waits of a step.
fn add_step(waits: &mut Waits, is_send: bool, step: &Step) {
    let sums = match is_send {
        true => [&mut waits.send_gpu_ns, &mut waits.send_peer_ns, &mut waits.send_ns],
        false => [&mut waits.recv_ns, &mut waits.recv_flush_ns, &mut waits.recv_gpu_ns],
    };
    for (sum, ns) in sums.into_iter().zip([step.first_ns, step.second_ns, step.third_ns]) {
        *sum += ns;
    }
}

/// What the network did in an instance.
#[derive(Debug, Default)]
pub(super) struct OfInstance {
    pub(super) waits: Waits,
    /// Steps that sent bytes, by connection.
    pub(super) sent: BTreeMap<(Pair, u32), Vec<Sent>>,
}

/// What decides which steps belong to what.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) filter: &'a Filter,
    pub(super) instances: &'a Instances,
    pub(super) classes: &'a Classes,
    /// Instances whose steps are looked at one by one, sorted.
    pub(super) outliers: &'a [u32],
}

pub(super) struct Traffic<'a> {
    known: Known<'a>,
    pub(super) transfers: usize,
    pub(super) steps: usize,
    pub(super) sent: BTreeMap<(Pair, u32), Vec<Sent>>,
    pub(super) waits: BTreeMap<Pair, Waits>,
    pub(super) channel_waits: BTreeMap<(u32, u32), Waits>,
    /// Of all steps of matched operations, by class.
    pub(super) classes: BTreeMap<u32, Waits>,
    pub(super) instances: BTreeMap<u32, OfInstance>,
}

impl<'a> Traffic<'a> {
    pub(super) const fn of(known: Known<'a>) -> Self {
        Self {
            known,
            transfers: 0,
            steps: 0,
            sent: BTreeMap::new(),
            waits: BTreeMap::new(),
            channel_waits: BTreeMap::new(),
            classes: BTreeMap::new(),
            instances: BTreeMap::new(),
        }
    }

    fn add_to_links(&mut self, tables: &Tables, transfer: &Transfer, step: &Step) {
        let Known { filter, .. } = self.known;
        let is_wanted = filter.wants_time(step.start_ns, step.stop_ns());
        let Some(pair) = pair_of(tables, transfer).filter(|_| is_wanted) else {
            return;
        };
        if !filter.wants_communicator(&tables.members, transfer.member) {
            return;
        }
        add_step(self.waits.entry(pair).or_default(), transfer.is_send, step);
        add_step(self.channel_waits.entry((pair.0, transfer.channel)).or_default(), transfer.is_send, step);
        if transfer.is_send && step.bytes > 0 && step.third_ns > 0 {
            self.sent.entry((pair, transfer.channel)).or_default().push(Sent::of(step));
        }
    }

    fn add_to_instances(&mut self, tables: &Tables, transfer: &Transfer, step: &Step) {
        let Known { instances, classes, outliers, .. } = self.known;
        let Some(instance) = instances.of_operation(transfer.operation) else {
            return;
        };
        if let Some(class) = classes.number(tables, transfer.operation) {
            add_step(self.classes.entry(class).or_default(), transfer.is_send, step);
        }
        if outliers.binary_search(&instance).is_err() {
            return;
        }
        let of_instance = self.instances.entry(instance).or_default();
        add_step(&mut of_instance.waits, transfer.is_send, step);
        if let Some(pair) = pair_of(tables, transfer).filter(|_| transfer.is_send && step.bytes > 0) {
            of_instance.sent.entry((pair, transfer.channel)).or_default().push(Sent::of(step));
        }
    }
}

impl Network for Traffic<'_> {
    fn transfers(&mut self, number: usize) {
        self.transfers += number;
    }

    fn step(&mut self, tables: &Tables, transfer: Option<&Transfer>, step: &Step) {
        self.steps += 1;
        if let Some(transfer) = transfer {
            self.add_to_links(tables, transfer, step);
            // Without outliers nothing asks for the rest.
            if !self.known.outliers.is_empty() {
                self.add_to_instances(tables, transfer, step);
            }
        }
    }

    fn append(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.steps += other.steps;
        extend(&mut self.sent, other.sent);
        other.waits.into_iter().for_each(|(pair, waits)| *self.waits.entry(pair).or_default() += waits);
        other.channel_waits.into_iter().for_each(|(of, waits)| *self.channel_waits.entry(of).or_default() += waits);
        other.classes.into_iter().for_each(|(class, waits)| *self.classes.entry(class).or_default() += waits);
        for (instance, other) in other.instances {
            let own = self.instances.entry(instance).or_default();
            own.waits += other.waits;
            extend(&mut own.sent, other.sent);
        }
    }
}

/// Most connections send from a single process.
fn extend(all: &mut BTreeMap<(Pair, u32), Vec<Sent>>, other: BTreeMap<(Pair, u32), Vec<Sent>>) {
    for (connection, mut sent) in other {
        let known = all.entry(connection).or_default();
        if known.is_empty() {
            sent.shrink_to_fit();
            *known = sent;
        } else {
            known.extend(sent);
        }
    }
}
