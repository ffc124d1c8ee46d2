//! Recovers from a stream the order of the callbacks, and which event each address means.
//!
//! An address means the event that last started there. Where time stamps are equal, nesting decides: an event
//! starts after its parent, its states lie between its start and its stop, and it stops before its parent.

use std::collections::BTreeMap;

use super::stream::{CommRank, Event, Init, Moment, Stream};
use crate::descriptor::StateArgs;

#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) callbacks: Vec<Callback>,
    /// The communicators; their places are the `comm` of callbacks and relations.
    pub(crate) comms: Vec<Init>,
    pub(crate) relations: Vec<Relation>,
}

/// Whom an event belongs to; all are places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) comm: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) group: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Callback {
    pub(crate) when: Moment,
    pub(crate) call: Call,
}

/// What was called; events and communicators by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Init { comm: usize },
    Start { event: usize },
    State { event: usize, number: u32, args: StateArgs },
    Stop { event: usize },
    Finalize { comm: usize },
}

/// What comes first where the time is the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Init,
    LastState,
    Stop,
    Start,
    State,
    StopAtOnce,
    Finalize,
}

/// The order of calling. Sorting is stable: where all is equal the order of the lines stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at_ns: u64,
    class: Class,
    depth: i64,
}

impl Ordered {
    /// Orders a stream. Communicators that were not finalized are, at the end.
    pub(crate) fn new(stream: &Stream) -> Self {
        let comms = communicators(stream);
        let addresses = Addresses::new(stream);
        // A parent that the stream lacks becomes NULL.
        let relation = |(place, event): (usize, &Event)| Relation {
            comm: find_comm(&comms, event.who, event.start.at_ns).unwrap_or(0),
            parent: addresses.find(event.parent, event.start.at_ns, Some(place)),
            group: addresses.find(event.group, event.start.at_ns, Some(place)),
        };
        let relations: Vec<Relation> = stream.events.iter().enumerate().map(relation).collect();
        let mut calls = Calls::default();
        for (comm, init) in comms.iter().enumerate() {
            calls.add(init.when, Class::Init, 0, Call::Init { comm });
        }
        calls.add_events(stream, &relations);
        calls.add_states(stream, &addresses);
        calls.add_finalizes(stream, &comms);
        Self { callbacks: calls.sorted(), comms, relations }
    }
}

#[derive(Default)]
struct Calls(Vec<(Key, Callback)>);

impl Calls {
    fn add(&mut self, when: Moment, class: Class, depth: i64, call: Call) {
        let key = Key { at_ns: when.at_ns, class, depth };
        self.0.push((key, Callback { when, call }));
    }

    fn add_events(&mut self, stream: &Stream, relations: &[Relation]) {
        for (event, recorded) in stream.events.iter().enumerate() {
            let depth = depth(relations, event);
            self.add(recorded.start, Class::Start, depth, Call::Start { event });
            if let Some(stop) = recorded.stop {
                let class = if stop.at_ns == recorded.start.at_ns { Class::StopAtOnce } else { Class::Stop };
                self.add(stop, class, -depth, Call::Stop { event });
            }
        }
    }

    fn add_states(&mut self, stream: &Stream, addresses: &Addresses) {
        for state in &stream.states {
            let at_ns = state.when.at_ns;
            let Some(event) = addresses.find(state.address, at_ns, None) else { continue };
            let recorded = &stream.events[event];
            let stops_now = recorded.stop.is_some_and(|stop| stop.at_ns == at_ns);
            let class = if stops_now && recorded.start.at_ns != at_ns { Class::LastState } else { Class::State };
            let call = Call::State { event, number: state.number, args: state.args };
            self.add(state.when, class, 0, call);
        }
    }

    fn add_finalizes(&mut self, stream: &Stream, comms: &[Init]) {
        let mut done = vec![false; comms.len()];
        for (when, who) in &stream.finalizes {
            if let Some(comm) = find_comm(comms, *who, when.at_ns) {
                done[comm] = true;
                self.add(*when, Class::Finalize, 0, Call::Finalize { comm });
            }
        }
        let last_ns = self.0.iter().map(|(key, _)| key.at_ns).max().unwrap_or(0);
        for (comm, init) in comms.iter().enumerate().filter(|(comm, _)| !done[*comm]) {
            let when = Moment { at_ns: last_ns, tid: init.when.tid };
            self.add(when, Class::Finalize, 0, Call::Finalize { comm });
        }
    }

    fn sorted(mut self) -> Vec<Callback> {
        self.0.sort_by_key(|(key, _)| *key);
        self.0.into_iter().map(|(_, callback)| callback).collect()
    }
}

/// The communicators in the order of their inits; one is made up for events that have none.
fn communicators(stream: &Stream) -> Vec<Init> {
    let mut comms = stream.inits.clone();
    let mut missing: Vec<Init> = Vec::new();
    for event in &stream.events {
        let known = comms.iter().chain(&missing).any(|init| init.who == event.who);
        if !known {
            missing.push(Init { when: event.start, pid: 0, who: event.who, ranks: 0, nodes: 1, name: None });
        }
    }
    // They existed from the beginning.
    let first_ns = stream.events.iter().map(|event| event.start.at_ns).min();
    for init in &mut missing {
        init.when.at_ns = first_ns.unwrap_or(0);
        let same = stream.events.iter().filter(|event| event.who.comm_id == init.who.comm_id);
        init.ranks = same.map(|event| event.who.rank).max().unwrap_or(0) + 1;
    }
    comms.extend(missing);
    comms.sort_by_key(|init| init.when.at_ns);
    comms
}

/// The last init of a communicator at a time; the first one for a time before it.
fn find_comm(comms: &[Init], who: CommRank, at_ns: u64) -> Option<usize> {
    let same = || comms.iter().enumerate().filter(|(_, init)| init.who == who);
    same().rfind(|(_, init)| init.when.at_ns <= at_ns).or_else(|| same().next()).map(|(place, _)| place)
}

fn depth(relations: &[Relation], event: usize) -> i64 {
    // A malformed stream could make a ring of equal times.
    const MOST: i64 = 32;
    let mut at = event;
    for depth in 0..MOST {
        match relations[at].group.or(relations[at].parent) {
            Some(parent) => at = parent,
            None => return depth,
        }
    }
    MOST
}

struct Addresses(BTreeMap<u64, Vec<(u64, usize)>>);

impl Addresses {
    fn new(stream: &Stream) -> Self {
        let mut map: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
        // Address 0 is NULL: nothing is found there.
        for (place, event) in stream.events.iter().enumerate().filter(|(_, event)| event.address != 0) {
            map.entry(event.address).or_default().push((event.start.at_ns, place));
        }
        map.values_mut().for_each(|starts| starts.sort_unstable());
        Self(map)
    }

    /// The event that last started at this address, not being `except`.
    fn find(&self, address: u64, at_ns: u64, except: Option<usize>) -> Option<usize> {
        let starts = self.0.get(&address)?;
        let end = starts.partition_point(|(start, _)| *start <= at_ns);
        let places = starts[..end].iter().rev().map(|(_, place)| *place);
        places.into_iter().find(|place| Some(*place) != except)
    }
}
