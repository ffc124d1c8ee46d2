//! Cause before effect: between hosts, and between GPU work and the operations and launches it belongs to.
//!
//! Between hosts, no message is received before it was sent, and no rank leaves a collective that not all have entered.
//! Processes of a host share a clock, so only operations across hosts reveal wrong clocks. Only measured times are
//! compared; unknown times break no rule. Messages are compared in time order: if each is received after it was sent,
//! then the k-th receive follows the k-th send.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::rules::{Findings, Rule};
use analysis::units::plural;
use analysis::{Clock, Fields, Instance, Role, Step, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::collective::Function;
use nccl_events::schema::Statements;
use nccl_events::sort::Gather;
use otf2::{
    Collective, CollectiveOp, CommRef, Event, EventKind, LocationGroupRef, LocationGroupType, LocationRef, Message,
    SystemTreeNodeRef,
};

pub(crate) struct Causality<'a> {
    trace: &'a Trace,
    hosts: BTreeMap<LocationRef, SystemTreeNodeRef>,
    /// The stated maximum error between the times of two hosts.
    uncertainty_ns: u64,
    /// Whether the archive states that its clocks are wrong somewhere.
    is_admitted: bool,
    clock: Clock,
    /// Start of the collective in progress; 0 if unknown.
    began: u64,
    /// How many sends wait for the record of their operation.
    sent: BTreeMap<Pair, u64>,
    /// Receives that count as measured if their enclosing operation ends with them, or its record says so.
    received: BTreeMap<Pair, VecDeque<u64>>,
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

pub(crate) fn gpu_residual_ns(statements: &Statements) -> u64 {
    statements.gpu_clocks().map(|(_, residual_ns)| residual_ns).max().unwrap_or(0)
}

/// When an operation began; `None` if its start was not measured.
fn begin(clock: Clock, operation: &Instance<'_>) -> Option<u64> {
    match operation.fields.timing? {
        Timing::KernelChannel | Timing::KernelChannelHost | Timing::Proxy => {
            Some(operation.start.saturating_sub(clock.ticks(operation.fields.start_moved_ns.unwrap_or(0))))
        }
        _ => None,
    }
}

impl<'a> Causality<'a> {
    /// `None` for an archive of one host, and if missing records make the order meaningless.
    pub(crate) fn new(trace: &'a Trace) -> Option<Self> {
        let statements = &trace.statements;
        let locations = trace.definitions.locations.iter();
        let hosts: BTreeMap<LocationRef, SystemTreeNodeRef> =
            locations.filter_map(|(location, definition)| Some((*location, trace.host(definition.group)?))).gather();
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
            clock: Clock::from_trace(trace),
            began: 0,
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            collectives: BTreeMap::new(),
            counts: BTreeMap::new(),
            messages: BTreeMap::new(),
        })
    }

    pub(crate) fn event(
        &mut self,
        location: LocationRef,
        event: &Event,
        step: &Step<'_>,
        around: Option<&Instance<'_>>,
    ) {
        match step {
            Step::Left(left) => self.settle(begin(self.clock, left).is_some()),
            Step::Recorded(operation) => self.settle_message(location, operation),
            Step::Entered(_) | Step::Inside => {}
        }
        // When the enclosing operation began, if it begins with this event.
        let clock = self.clock;
        let began = || begin(clock, around.filter(|around| around.start == event.time)?);
        match &event.kind {
            EventKind::MpiCollectiveBegin => self.began = began().unwrap_or(0),
            EventKind::MpiCollectiveEnd(collective) => {
                if let Some(rank) = self.trace.rank(location, collective.comm) {
                    self.passes(location, rank, collective, event.time);
                }
            }
            EventKind::MpiIsend { message, .. } => {
                if let Some(pair) = self.pair(location, message, true) {
                    match around.and_then(|around| self.trace.class(around.region)) {
                        // The message's own record says when it began.
                        Some(RegionClass::Fused) => *self.sent.entry(pair).or_insert(0) += 1,
                        _ => self.messages.entry(pair).or_default().sent.push(began().unwrap_or(0)),
                    }
                }
            }
            EventKind::MpiIrecv { message, .. } => {
                if let Some(pair) = self.pair(location, message, false) {
                    self.received.entry(pair).or_default().push_back(event.time);
                }
            }
            _ => {}
        }
    }

    /// Settles a message of a kernel with several operations, by the record of its operation.
    fn settle_message(&mut self, location: LocationRef, operation: &Instance<'_>) {
        let function = self.trace.function(operation.region);
        let (Some(is_send), Some((comm, rank)), Some(peer)) =
            (function.and_then(Function::is_send), self.trace.rank_of(location), operation.fields.peer)
        else {
            return;
        };
        let pair = if is_send { (comm, rank, peer) } else { (comm, peer, rank) };
        let began = begin(self.clock, operation);
        if is_send {
            if let Some(waiting) = self.sent.get_mut(&pair).filter(|waiting| **waiting > 0) {
                *waiting -= 1;
                self.messages.entry(pair).or_default().sent.push(began.unwrap_or(0));
            }
        } else if let Some(time) = self.received.get_mut(&pair).and_then(VecDeque::pop_front) {
            self.messages.entry(pair).or_default().received.push(if began.is_some() { time } else { u64::MAX });
        }
    }

    /// Settles messages that belong to the operation that was just left, or that no record settles.
    pub(crate) fn settle(&mut self, is_measured: bool) {
        for (pair, waiting) in std::mem::take(&mut self.sent) {
            self.messages.entry(pair).or_default().sent.extend((0..waiting).map(|_| 0));
        }
        for (pair, times) in std::mem::take(&mut self.received) {
            let times = times.into_iter().map(|time| if is_measured { time } else { u64::MAX });
            self.messages.entry(pair).or_default().received.extend(times);
        }
    }

    fn host(&self, location: LocationRef) -> SystemTreeNodeRef {
        self.hosts.get(&location).copied().unwrap_or_default()
    }

    fn pair(&self, location: LocationRef, message: &Message, is_send: bool) -> Option<Pair> {
        let rank = self.trace.rank(location, message.comm)?;
        let peer = self.trace.members(message.comm).get(usize::try_from(message.peer).ok()?)?;
        let (from, to) = if is_send { (rank, message.peer) } else { (message.peer, rank) };
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

    pub(crate) fn end(&mut self, findings: &mut Findings) {
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

struct Operation {
    start: u64,
    end: u64,
    /// `None` if communicators are threads.
    gpu: Option<LocationGroupRef>,
    timing: Option<Timing>,
}

/// Checks that the work of GPUs lies within the operations that it timed, has its launches, and is on locations of the
/// right GPU; and that operations name launches that are there. It is read process by process: threads and
/// communicators precede channels and streams.
pub(crate) struct GpuWork<'a> {
    trace: &'a Trace,
    operations: BTreeMap<u64, Operation>,
    /// External ids of launches and copy-engine collectives.
    launches: BTreeSet<u64>,
    kernel_launches: BTreeSet<u64>,
    /// Operations whose launch was not read before them: location, start, and the launch that they name.
    launched: Vec<(LocationRef, u64, u64)>,
    /// Channels whose operation was not read before them, by its id.
    waiting: BTreeMap<u64, Vec<Instance<'a>>>,
    /// The largest residual of GPU clocks; `None` if the archive states nothing about them.
    residual_ns: Option<u64>,
    channels: u64,
    kernels: u64,
    copies: u64,
    without_launch: u64,
}

impl<'a> GpuWork<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let is_any =
            trace.statements.gpu_clocks().any(|(ranks, _)| ranks > 0) || !trace.statements.gpu_clock_list.is_empty();
        Self {
            trace,
            operations: BTreeMap::new(),
            launches: BTreeSet::new(),
            kernel_launches: BTreeSet::new(),
            launched: Vec::new(),
            residual_ns: is_any.then(|| gpu_residual_ns(&trace.statements)),
            waiting: BTreeMap::new(),
            channels: 0,
            kernels: 0,
            copies: 0,
            without_launch: 0,
        }
    }

    /// The process is read. Locations that could not be read may have the launches that are missing.
    pub(crate) fn next_process(&mut self, is_all_read: bool, findings: &mut Findings) {
        for (location, start, launch) in self.launched.drain(..).filter(|_| is_all_read) {
            if !self.kernel_launches.contains(&launch) {
                let message = format!("its process has no kernel launch {launch}");
                findings.at((self.trace, location), Some(start), Rule::Launch, message);
            }
        }
        self.operations.clear();
        self.waiting.clear();
        self.launches.clear();
        self.kernel_launches.clear();
    }

    pub(crate) fn step(&mut self, location: LocationRef, step: &Step<'a>, findings: &mut Findings) {
        let (Step::Left(instance) | Step::Recorded(instance)) = step else {
            return;
        };
        let Fields { event, timing, launch, .. } = instance.fields;
        match (instance.role, event) {
            (Some(Role::Operation(_)), Some(id)) => {
                let operation = Operation { start: instance.start, end: instance.end, gpu: self.gpu(location), timing };
                self.operations.insert(id, operation);
                for channel in self.waiting.remove(&id).into_iter().flatten() {
                    self.channel(location, &channel, findings);
                }
                let unread = launch.filter(|launch| !self.kernel_launches.contains(launch));
                self.launched.extend(unread.map(|launch| (location, instance.start, launch)));
            }
            (Some(Role::Call(Kind::KernelLaunch)), Some(id)) => {
                self.kernel_launches.insert(id);
            }
            // A channel with implausible GPU times is shown with the host's times instead.
            (Some(Role::Work(Kind::KernelCh)), _) if instance.fields.is_suspicious != Some(true) => {
                match self.operation(instance) {
                    Some(_) => self.channel(location, instance, findings),
                    None => self.waiting.entry(instance.fields.parent.unwrap_or(0)).or_default().push(*instance),
                }
            }
            (None, _) if self.trace.location_kind(location) == Some(LocationKind::Stream) => {
                self.work(location, instance, findings);
                return;
            }
            _ => {}
        }
        self.launches.extend(instance.fields.external_correlation);
    }

    fn gpu(&self, location: LocationRef) -> Option<LocationGroupRef> {
        let group = self.trace.group(location);
        let known = self.trace.definitions.location_groups.get(&group)?;
        (known.group_type == LocationGroupType::Accelerator).then_some(group)
    }

    fn operation(&self, instance: &Instance<'_>) -> Option<&Operation> {
        self.operations.get(&instance.fields.parent?)
    }

    fn channel(&mut self, location: LocationRef, channel: &Instance<'_>, findings: &mut Findings) {
        let timed_by_it = |operation: &&Operation| operation.timing == Some(Timing::KernelChannel);
        let Some(Operation { start, end, .. }) = self.operation(channel).filter(timed_by_it) else {
            return;
        };
        // A record has the length by the clock of its process, which the archive's runs a little faster or slower than.
        let stretch_ns = 1 + channel.end.saturating_sub(channel.start) / 10_000;
        let residual_ns = self.residual_ns.unwrap_or(0) + stretch_ns;
        if channel.start < start.saturating_sub(residual_ns) || channel.end > end.saturating_add(residual_ns) {
            let message = format!(
                "a channel runs from {} to {}, its operation from {start} to {end}, \
                 and the residual of the GPU clocks is {residual_ns} ns",
                channel.start, channel.end
            );
            findings.at((self.trace, location), Some(channel.start), Rule::InsideParent, message);
        }
        self.channels += 1;
    }

    fn work(&mut self, location: LocationRef, work: &Instance<'_>, findings: &mut Findings) {
        let external = work.fields.external_correlation.unwrap_or(0);
        if self.trace.is_copy(work.region) {
            self.copies += 1;
        } else {
            self.kernels += 1;
            // Copies need no launch: some collectives are copied without kernels.
            let is_known = external == 0 || self.launches.contains(&external);
            self.without_launch += u64::from(!is_known);
        }
        let Some(operation) = self.operation(work) else {
            return;
        };
        let mut find = |rule, message: String| {
            findings.at((self.trace, location), Some(work.start), rule, message);
        };
        if operation.timing == Some(Timing::Cupti) && (work.start < operation.start || work.end > operation.end) {
            let message = format!(
                "it runs from {} to {}, its operation from {} to {}",
                work.start, work.end, operation.start, operation.end
            );
            find(Rule::KernelTime, message);
        }
        if let (Some(gpu), Some(expected)) = (self.gpu(location), operation.gpu)
            && gpu != expected
        {
            let [gpu, expected] = [gpu, expected].map(|group| self.trace.group_name(group));
            find(Rule::KernelGpu, format!("it is on {gpu}, its operation on {expected}"));
        }
    }

    /// Compares with the archive's counts. Unreadable locations cannot be counted.
    pub(crate) fn end(&self, is_all_read: bool, findings: &mut Findings) {
        if self.channels > 0 && self.residual_ns.is_none() {
            let message = format!(
                "{} kernel channels have GPU times, but the archive says nothing about GPU clocks",
                self.channels
            );
            findings.general(Rule::GpuResidual, message);
        }
        if !is_all_read {
            return;
        }
        let counts = &self.trace.statements.gpu_counts;
        let kernels = [
            counts.kernels_joined,
            counts.kernels_of_graphs,
            counts.kernels_of_graphs_unknown,
            counts.kernels_without_launch,
            counts.kernels_other,
        ];
        for (what, found, written) in [
            ("kernels", self.kernels, kernels.into_iter().fold(0, u64::saturating_add)),
            ("copies", self.copies, counts.copies_shown),
            ("kernels whose launch is missing", self.without_launch, counts.kernels_without_launch),
        ] {
            if found != written {
                findings.general(Rule::GpuWork, format!("{written} {what} were written, but the archive has {found}"));
            }
        }
    }
}
