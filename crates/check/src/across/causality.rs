//! Between hosts: no message is received before it was sent, and no rank leaves a collective that not all have entered.
//!
//! Processes of a host share a clock, so only operations across hosts reveal wrong clocks. Only measured times are
//! compared; unknown times break no rule. Messages are compared in time order: if each is received after it was sent,
//! then the k-th receive follows the k-th send.

use std::collections::BTreeMap;

use analysis::{Instance, Step, Trace};
use nccl_events::archive::Timing;
use otf2::{Collective, CollectiveOp, CommRef, Event, EventKind, LocationRef, Message, SystemTreeNodeRef};
use schema::Statements;
use small_sort::Gather;

use crate::findings::Findings;
use crate::rules::Rule;
use analysis::units::plural;

pub(super) struct Causality<'a> {
    trace: &'a Trace,
    hosts: BTreeMap<LocationRef, SystemTreeNodeRef>,
    /// The stated maximum error between the times of two hosts.
    uncertainty_ns: u64,
    /// Whether the archive states that its clocks are wrong somewhere.
    is_admitted: bool,
    /// Start of the collective in progress; 0 if unknown.
    began: u64,
    /// Receives that count as measured if their enclosing operation ends with them.
    received: Vec<(Pair, u64)>,
    collectives: BTreeMap<CommRef, Vec<CollectiveTimes>>,
    counts: BTreeMap<(LocationRef, CommRef), usize>,
    messages: BTreeMap<Pair, MessageTimes>,
}

type Pair = (CommRef, u32, u32);

/// When all had entered a collective, and when it was first left on another host.
#[derive(Clone, Copy, Default)]
struct CollectiveTimes {
    /// The last entry on any host, and the last entry on a different host.
    entered: [Option<(u64, SystemTreeNodeRef)>; 2],
    /// The first exit on any host, and the first exit on a different host.
    left: [Option<(u64, SystemTreeNodeRef)>; 2],
}

#[derive(Default)]
struct MessageTimes {
    sent: Vec<u64>,
    received: Vec<u64>,
}

pub(super) fn gpu_residual_ns(statements: &Statements) -> u64 {
    statements.gpu_clocks().map(|(_, residual_ns)| residual_ns).max().unwrap_or(0)
}

/// When an operation that was just entered began; `None` if its start was not measured.
fn begin(entered: &Instance<'_>) -> Option<u64> {
    match entered.fields.timing? {
        Timing::KernelChannel | Timing::KernelChannelHost | Timing::Proxy => {
            Some(entered.start.saturating_sub(entered.fields.start_moved_ns.unwrap_or(0)))
        }
        _ => None,
    }
}

impl<'a> Causality<'a> {
    /// `None` for an archive of one host, and if missing records make the order meaningless.
    pub(super) fn of(trace: &'a Trace) -> Option<Self> {
        let statements = &trace.statements;
        let locations = trace.definitions.locations.iter();
        let hosts: BTreeMap<LocationRef, SystemTreeNodeRef> =
            locations.filter_map(|(location, it)| Some((*location, trace.host(it.group)?))).gather();
        let first = hosts.values().next();
        if hosts.values().all(|host| Some(host) == first) || statements.has_gaps() {
            return None;
        }
        let between_hosts_ns = statements.alignment_uncertainty_ns.get();
        Some(Self {
            trace,
            hosts,
            // The errors of two clocks, and of two GPUs' clocks.
            uncertainty_ns: between_hosts_ns.saturating_add(gpu_residual_ns(statements)).saturating_mul(2),
            is_admitted: statements.alignment_violations.get() > 0 || statements.alignment_groups.get() > 1,
            began: 0,
            received: Vec::new(),
            collectives: BTreeMap::new(),
            counts: BTreeMap::new(),
            messages: BTreeMap::new(),
        })
    }

    pub(super) fn event(
        &mut self,
        location: LocationRef,
        event: &Event,
        step: &Step<'_>,
        around: Option<&Instance<'_>>,
    ) {
        if let Step::Left(left) = step {
            self.settle(begin(left).is_some());
        }
        // When the enclosing operation began, if it begins with this event.
        let began = || begin(around.filter(|around| around.start == event.time)?);
        match &event.kind {
            EventKind::MpiCollectiveBegin => self.began = began().unwrap_or(0),
            EventKind::MpiCollectiveEnd(collective) => {
                if let Some(rank) = self.trace.rank(location, collective.comm) {
                    self.passes(location, rank, collective, event.time);
                }
            }
            EventKind::MpiIsend { message, .. } => {
                if let Some(pair) = self.pair(location, message, true) {
                    self.messages.entry(pair).or_default().sent.push(began().unwrap_or(0));
                }
            }
            EventKind::MpiIrecv { message, .. } => {
                if let Some(pair) = self.pair(location, message, false) {
                    self.received.push((pair, event.time));
                }
            }
            _ => {}
        }
    }

    /// Settles receives, which belong to the operation that was just left, or to one that is shown elsewhere.
    pub(super) fn settle(&mut self, is_measured: bool) {
        for (pair, time) in self.received.drain(..) {
            self.messages.entry(pair).or_default().received.push(if is_measured { time } else { u64::MAX });
        }
    }

    fn host(&self, location: LocationRef) -> SystemTreeNodeRef {
        self.hosts.get(&location).copied().unwrap_or_default()
    }

    fn pair(&self, location: LocationRef, message: &Message, is_send: bool) -> Option<Pair> {
        let rank = self.trace.rank(location, message.comm)?;
        let peer = self.trace.members(message.comm).get(usize::try_from(message.peer).ok()?)?;
        let (from, to) = match is_send {
            true => (rank, message.peer),
            false => (message.peer, rank),
        };
        (self.host(*peer) != self.host(location)).then_some((message.comm, from, to))
    }

    fn passes(&mut self, location: LocationRef, rank: u32, collective: &Collective, end: u64) {
        let host = self.host(location);
        let count = self.counts.entry((location, collective.comm)).or_insert(0);
        let times = self.collectives.entry(collective.comm).or_default();
        if times.len() <= *count {
            times.resize(*count + 1, CollectiveTimes::default());
        }
        let entry = &mut times[*count];
        *count += 1;
        let is_root = collective.root == Some(rank);
        let (enters, leaves) = match collective.op {
            CollectiveOp::Bcast | CollectiveOp::Scatter => (is_root, !is_root),
            CollectiveOp::Reduce | CollectiveOp::Gather => (!is_root, is_root),
            _ => (true, true),
        };
        let began = std::mem::take(&mut self.began);
        // Without a measured start there is no measured end.
        if began == 0 {
            return;
        }
        if enters {
            keep(&mut entry.entered, (began, host), |new, old| new > old);
        }
        if leaves {
            keep(&mut entry.left, (end, host), |new, old| new < old);
        }
    }

    pub(super) fn end(&mut self, findings: &mut Findings) {
        self.settle(false);
        let rule = |rule| {
            if self.is_admitted { Rule::ClocksAdmitted } else { rule }
        };
        for (comm, times) in &self.collectives {
            // Counted from 1, as in all output for people.
            for (at, entry) in (1..).zip(times) {
                if let Some(early) = entry.early().filter(|early| *early > self.uncertainty_ns) {
                    let comm = self.trace.comm_name(*comm);
                    let message = format!("{comm}: collective {at} is left {early} ns before it is entered by all");
                    findings.general(rule(Rule::EarlyExit), message);
                }
            }
        }
        for ((comm, from, to), times) in &mut self.messages {
            times.sent.sort_unstable();
            times.received.sort_unstable();
            let pairs = times.sent.iter().zip(&times.received);
            let (number, worst) = pairs
                .map(|(sent, received)| sent.saturating_sub(*received))
                .filter(|early| *early > self.uncertainty_ns)
                .fold((0_u64, 0), |(number, worst), early| (number + 1, worst.max(early)));
            if number > 0 && times.sent.len() == times.received.len() {
                let message = format!(
                    "{}: {} from rank {from} to rank {to} received before sent, by up to {worst} ns",
                    self.trace.comm_name(*comm),
                    plural(number, "message", "messages")
                );
                findings.general(rule(Rule::EarlyReceive), message);
            }
        }
    }
}

/// Keeps the best values of two different hosts, the best first.
fn keep(
    best: &mut [Option<(u64, SystemTreeNodeRef)>; 2],
    new: (u64, SystemTreeNodeRef),
    is_better: impl Fn(u64, u64) -> bool,
) {
    let better = |old: Option<(u64, SystemTreeNodeRef)>| old.is_none_or(|old| is_better(new.0, old.0));
    let [first, second] = *best;
    if better(first) {
        *best = [Some(new), first.filter(|first| first.1 != new.1).or(second.filter(|second| second.1 != new.1))];
    } else if first.is_some_and(|first| first.1 != new.1) && better(second) {
        *best = [first, Some(new)];
    }
}

impl CollectiveTimes {
    fn early(&self) -> Option<u64> {
        let pairs = self
            .entered
            .iter()
            .flatten()
            .flat_map(|entered| self.left.iter().flatten().map(move |left| (entered, left)));
        pairs
            .filter(|(entered, left)| entered.1 != left.1)
            .map(|(entered, left)| entered.0.saturating_sub(left.0))
            .max()
    }
}
