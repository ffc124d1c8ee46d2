//! Checks that need several locations: one pass over all of them, in which each checker keeps its open state. The
//! checkers are of collectives, messages, ranges of the program, and the number of events.

use std::collections::{BTreeMap, BTreeSet};

use crate::causality::{Causality, GpuWork};
use crate::clocks::ClockOffsets;
use crate::rules::{Findings, Rule, is_known, is_stated, rule_unless};
use analysis::{Instances, Sequences, Step, Trace, is_merged, is_nccl};
use hang::Remark;
use nccl_events::archive::{LocationKind, OTHER_RANGES, PATH_SEPARATOR, RegionClass, path_of_ranges, region};
use nccl_events::ids::{ContextId, EventId};
use nccl_events::schema::Statements;
use nccl_events::sort::Gather;
use nccl_events::{Kind, rank_list};
use otf2::{Collective, CollectiveOp, CommRef, Event, EventKind, LocationRef, Message, RegionRef};

pub(crate) struct BetweenLocations<'a> {
    trace: &'a Trace,
    instances: Instances<'a>,
    collectives: Collectives,
    messages: Messages,
    /// Checks that need the statements of this project's writer.
    nccl: Option<(WrittenEvents<'a>, GpuWork<'a>, UserRanges<'a>)>,
    causality: Option<Causality<'a>>,
    clock_offsets: ClockOffsets<'a>,
    pub(crate) unreadable: BTreeSet<LocationRef>,
}

impl<'a> BetweenLocations<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let is_nccl = is_nccl(&trace.archive);
        Self {
            trace,
            instances: Instances::new(trace),
            collectives: Collectives::default(),
            messages: Messages::default(),
            nccl: is_nccl.then(|| (WrittenEvents::new(trace), GpuWork::new(trace), UserRanges::new(trace))),
            causality: is_nccl.then(|| Causality::new(trace)).flatten(),
            clock_offsets: ClockOffsets::new(trace),
            unreadable: BTreeSet::new(),
        }
    }

    pub(crate) fn next_process(&mut self, findings: &mut Findings) {
        if let Some((_, gpu_work, _)) = &mut self.nccl {
            gpu_work.next_process(self.unreadable.is_empty(), findings);
        }
    }

    pub(crate) fn next_location(&mut self, location: LocationRef, findings: &mut Findings) {
        self.clock_offsets.next_location(location, findings);
        self.instances.next_location();
        if let Some((written, _, ranges)) = &mut self.nccl {
            written.last.clear();
            ranges.next_location();
        }
        if let Some(causality) = &mut self.causality {
            causality.settle(false);
        }
    }

    pub(crate) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        self.clock_offsets.event(event.time);
        // A location that is not a member was reported when its own events were checked.
        let rank = |comm| self.trace.rank(location, comm);
        match &event.kind {
            EventKind::MpiCollectiveEnd(collective) | EventKind::NonBlockingCollectiveComplete { collective, .. } => {
                if let Some(rank) = rank(collective.comm) {
                    self.collectives.add(self.trace, rank, collective, findings);
                }
            }
            EventKind::MpiIsend { message, .. } | EventKind::MpiSend(message) => {
                if let Some(rank) = rank(message.comm) {
                    self.messages.add(rank, message, true);
                }
            }
            EventKind::MpiIrecv { message, .. } | EventKind::MpiRecv(message) => {
                if let Some(rank) = rank(message.comm) {
                    self.messages.add(rank, message, false);
                }
            }
            _ => {}
        }
        let step = self.instances.step(event);
        if let Some((written, gpu_work, ranges)) = &mut self.nccl {
            ranges.event(location, event, findings);
            gpu_work.step(location, &step, findings);
            written.step(&step);
        }
        if let Some(causality) = &mut self.causality {
            causality.event(location, event, &step, self.instances.open().last());
        }
    }

    pub(crate) fn end(&mut self, remarks: &[Remark], findings: &mut Findings) {
        self.next_process(findings);
        let (trace, unreadable) = (self.trace, &self.unreadable);
        self.collectives.end(trace, unreadable, findings);
        self.messages.end(trace, unreadable, remarks, findings);
        // Unreadable locations cannot be counted.
        if unreadable.is_empty() {
            self.collectives.check_members(trace, findings);
        }
        if let Some(causality) = &mut self.causality {
            causality.end(findings);
        }
        self.clock_offsets.end(findings);
        if let Some((written, gpu_work, ranges)) = &self.nccl {
            gpu_work.end(unreadable.is_empty(), findings);
            if unreadable.is_empty() {
                written.end(&trace.statements, findings);
                ranges.end(findings);
            }
        }
    }
}

/// Checks that the members of a communicator do the same collectives in the same order.
#[derive(Default)]
pub(crate) struct Collectives {
    sequences: BTreeMap<CommRef, Sequences<CollectiveProperties>>,
    /// After the first different operation, everything differs.
    lost: BTreeSet<(CommRef, u32)>,
}

/// The properties of a collective that its ranks must agree on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CollectiveProperties {
    op: CollectiveOp,
    root: Option<u32>,
    sent: u64,
    received: u64,
}

impl Collectives {
    pub(crate) fn add(&mut self, trace: &Trace, rank: u32, collective: &Collective, findings: &mut Findings) {
        let Collective { op, comm, root, bytes_sent: sent, bytes_received: received } = *collective;
        let part = CollectiveProperties { op, root, sent, received };
        let other = self.sequences.entry(comm).or_default().add(rank, part);
        let Some(other) = other.filter(|_| !self.lost.contains(&(comm, rank))) else {
            return;
        };
        let Some((rule, difference)) = difference(other.thing, &part, other.rank, rank) else {
            return;
        };
        if rule == Rule::CollectiveOrder {
            self.lost.insert((comm, rank));
        }
        let name = trace.comm_name(comm);
        // If records are missing in the middle, positions are meaningless. A difference that the archive states is an
        // error of the program, not of the archive.
        let is_admitted = trace.statements.has_gaps() || is_stated(trace, &name);
        // Counted from 1, as in the archive's list of mismatches and in `hang`.
        let (at, other) = (other.place + 1, other.rank);
        let message = format!("{name}: collective {at}: rank {other} and rank {rank} {difference}");
        findings.general(rule_unless(is_admitted, rule), message);
    }

    /// Called at the end: the members of each communicator must have equally many collectives.
    pub(crate) fn end(&self, trace: &Trace, unreadable: &BTreeSet<LocationRef>, findings: &mut Findings) {
        for (comm, sequence) in &self.sequences {
            let Some((longest, most)) = sequence.longest() else {
                continue;
            };
            for (rank, location) in (0..).zip(trace.members(*comm)) {
                let here = sequence.count(rank);
                if here == most || !is_known(trace, *location, unreadable) {
                    continue;
                }
                let name = trace.comm_name(*comm);
                let is_admitted = trace.statements.is_partial() || is_stated(trace, &name);
                let message = format!("{name}: rank {rank} takes part in {here} collectives, rank {longest} in {most}");
                findings.general(rule_unless(is_admitted, Rule::CollectiveRank), message);
            }
        }
    }

    /// Checks whether the archive counts its members without events.
    pub(crate) fn check_members(&self, trace: &Trace, findings: &mut Findings) {
        let is_recorded = |location| trace.location_kind(location) != Some(LocationKind::NotRecorded);
        let (mut missing, mut unmatched) = (trace.statements.ranks_unlocated.get(), 0_u64);
        for comm in trace.definitions.comms.keys().copied() {
            let ranks = || (0_u32..).zip(trace.members(comm).iter().copied());
            let sequence = self.sequences.get(&comm);
            let counts: Vec<usize> = ranks()
                .filter(|(_, location)| is_recorded(*location))
                .map(|(rank, _)| sequence.map_or(0, |sequence| sequence.count(rank)))
                .collect();
            missing += (trace.members(comm).len() - counts.len()) as u64;
            if let (Some(most), Some(least)) = (counts.iter().max(), counts.iter().min()) {
                unmatched += (most - least) as u64;
            }
            let empty: Vec<u32> =
                ranks().filter(|(_, location)| !trace.has_events(*location)).map(|(rank, _)| rank).collect();
            if !empty.is_empty() && sequence.is_some() {
                let name = trace.comm_name(comm);
                let ranks = if empty.len() == 1 { "rank" } else { "ranks" };
                let message = format!("{name}: nothing is recorded about {ranks} {}", rank_list(&empty));
                findings.general(Rule::RankMissing, message);
            }
        }
        let (statements, is_nccl) = (&trace.statements, is_nccl(&trace.archive));
        for (counted, there, what) in [
            (statements.ranks_missing.get(), missing, "ranks that were not recorded"),
            (statements.collectives_unmatched.get(), unmatched, "collectives that some recorded ranks do not have"),
        ] {
            if is_nccl && counted != there {
                findings.general(
                    Rule::RankStatement,
                    format!(
                        "the archive counts {counted} {what}, but there are \
                        {there}"
                    ),
                );
            }
        }
    }
}

/// How the parts of two ranks in one collective differ, if they must not.
fn difference(a: &CollectiveProperties, b: &CollectiveProperties, rank_a: u32, rank_b: u32) -> Option<(Rule, String)> {
    if a.op != b.op {
        return Some((Rule::CollectiveOrder, format!("do different operations, {:?} and {:?}", a.op, b.op)));
    }
    if a.root != b.root {
        let [a, b] = [a.root, b.root].map(|root| root.map_or_else(|| "none".to_owned(), |root| root.to_string()));
        return Some((Rule::CollectiveOrder, format!("name different roots, {a} and {b}")));
    }
    let is_root = |rank: u32| a.root == Some(rank);
    let (same_sent, same_received) = (a.sent == b.sent, a.received == b.received);
    let fits = match a.op {
        // Sizes may differ between ranks.
        CollectiveOp::Gatherv
        | CollectiveOp::Scatterv
        | CollectiveOp::Allgatherv
        | CollectiveOp::Alltoallv
        | CollectiveOp::Alltoallw
        | CollectiveOp::ReduceScatter => true,
        // One of the root's sizes differs from the others.
        CollectiveOp::Bcast | CollectiveOp::Scatter => {
            same_received && (same_sent || is_root(rank_a) != is_root(rank_b))
        }
        CollectiveOp::Reduce | CollectiveOp::Gather => {
            same_sent && (same_received || is_root(rank_a) != is_root(rank_b))
        }
        _ => same_sent && same_received,
    };
    (!fits).then(|| {
        let text = format!("send {} and {} bytes, receive {} and {}", a.sent, b.sent, a.received, b.received);
        (Rule::CollectiveBytes, text)
    })
}

nccl_events::fields! {
    struct CallFields {
        event: Event,
        ranges: Ranges,
    }
}

#[derive(Clone, Copy)]
enum Region<'a> {
    Range(&'a str),
    Mark,
    Call {
        name: &'a str,
        /// Whether NCCL's interface reports calls of this function.
        is_of_interface: bool,
        /// Whether the interface reported this call; otherwise only a range of NCCL's shows it.
        is_reported: bool,
    },
}

/// Checks the ranges of the program: as many as the archive states, and around the calls that name them. A call that
/// NCCL's interface reports has no range of NCCL's around it.
pub(crate) struct UserRanges<'a> {
    trace: &'a Trace,
    regions: BTreeMap<RegionRef, Region<'a>>,
    open: Vec<Option<Region<'a>>>,
    /// Whether the location had a range of the program so far. Without any, its calls have those of another thread.
    has_ranges: bool,
    found: u64,
}

impl<'a> UserRanges<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let regions = trace.definitions.regions.iter().filter_map(|(reference, region)| {
            let info = trace.region(*reference)?;
            let name = trace.definitions.string(region.name).unwrap_or_default();
            let region = match info.class {
                RegionClass::User => Region::Range(name),
                RegionClass::Mark => Region::Mark,
                RegionClass::Api => {
                    let is_of_interface = matches!(info.kind, Some(Kind::CollApi | Kind::P2pApi));
                    Region::Call { name, is_of_interface, is_reported: false }
                }
                _ => return None,
            };
            Some((*reference, region))
        });
        Self { trace, regions: regions.gather(), open: Vec::new(), has_ranges: false, found: 0 }
    }

    pub(crate) fn next_location(&mut self) {
        self.open.clear();
        self.has_ranges = false;
    }

    pub(crate) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        match event.kind {
            EventKind::Enter(region) => {
                let mut region = self.regions.get(&region).copied();
                match &mut region {
                    Some(Region::Call { name, is_of_interface, is_reported }) => {
                        let fields: CallFields<'_> = self.trace.read_fields(&event.attributes);
                        *is_reported = *is_of_interface && fields.event.is_some();
                        self.call(location, event.time, (name, *is_reported, &fields), findings);
                    }
                    Some(Region::Range(_)) => {
                        self.has_ranges = true;
                        self.found += 1;
                    }
                    Some(Region::Mark) => self.found += 1,
                    None => {}
                }
                self.open.push(region);
            }
            EventKind::Leave(_) => {
                self.open.pop();
            }
            _ => {}
        }
    }

    fn call(
        &self,
        location: LocationRef,
        time: u64,
        (name, is_reported, fields): (&str, bool, &CallFields<'_>),
        findings: &mut Findings,
    ) {
        let at = (self.trace, location);
        let is_range = |open: &Region<'_>| match open {
            Region::Call { name: around, is_reported, .. } => !is_reported && *around == name,
            _ => false,
        };
        if is_reported && self.open.iter().flatten().any(is_range) {
            findings.at(at, Some(time), Rule::ShownOnce, format!("{name} is inside another {name}"));
        }
        // Parts of a group have no attributes.
        if fields.ranges.is_none() && !is_reported {
            return;
        }
        let stated = fields.ranges.unwrap_or_default();
        let open = self.open.iter().flatten().filter_map(|open| match open {
            Region::Range(name) => Some(*name),
            _ => None,
        });
        let open: Vec<&str> = open.collect();
        if !self.fits(stated, &open) {
            let message = format!("{name} names the ranges {stated:?}, but is in {:?}", path_of_ranges(&open));
            findings.at(at, Some(time), Rule::RangesAround, message);
        }
    }

    /// Whether the ranges that a call names are those open around it. Cut instances can leave a range too early.
    fn fits(&self, stated: &str, open: &[&str]) -> bool {
        if is_merged(&self.trace.archive) || stated == OTHER_RANGES || stated == path_of_ranges(open) {
            return true;
        }
        if !self.has_ranges && self.trace.statements.counts.ranges_user > 0 {
            return true;
        }
        let mut names = stated.split(PATH_SEPARATOR);
        let is_named = |open: &&str| names.any(|name| name == path_of_ranges([open]));
        self.trace.statements.counts.clamped > 0 && open.iter().all(is_named)
    }

    pub(crate) fn end(&self, findings: &mut Findings) {
        let counts = &self.trace.statements.counts;
        let stated = counts.ranges_user.saturating_add(counts.ranges_marks);
        if stated != self.found && !is_merged(&self.trace.archive) {
            let message = format!("{stated} ranges and marks are stated, but the archive has {}", self.found);
            findings.general(Rule::RangesWritten, message);
        }
    }
}

/// Checks that the archive has as many events as it states.
pub(crate) struct WrittenEvents<'a> {
    trace: &'a Trace,
    /// Whether the enqueueing of operations is shown, too: then it counts, and the operation does not.
    has_enqueueing: bool,
    counts: BTreeMap<Kind, u64>,
    unfinished: u64,
    /// By kind, the last event: the parts of an event follow each other on its location.
    pub(crate) last: BTreeMap<Kind, u64>,
}

impl<'a> WrittenEvents<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let is_enqueueing = |region: &RegionRef| {
            let info = trace.region(*region);
            info.is_some_and(|info| info.class == RegionClass::Enqueue && info.name.ends_with(region::ENQUEUE))
        };
        let has_enqueueing = trace.definitions.regions.keys().any(is_enqueueing);
        Self { trace, has_enqueueing, counts: BTreeMap::new(), unfinished: 0, last: BTreeMap::new() }
    }

    pub(crate) fn step(&mut self, step: &Step<'_>) {
        let shown = match step {
            Step::Entered(entered) => entered,
            Step::Left(left) => {
                self.unfinished += u64::from(left.fields.is_unfinished == Some(true));
                return;
            }
            Step::Recorded(recorded) => {
                self.unfinished += u64::from(recorded.fields.is_unfinished == Some(true));
                recorded
            }
            Step::Inside => return,
        };
        // A call outside of the program's groups shows the group that NCCL made around it, too.
        *self.counts.entry(Kind::GroupApi).or_insert(0) += u64::from(shown.fields.group.is_some());
        // Regions without an event, such as a call assembled from others, have no id.
        let (Some(class), Some(id)) = (self.trace.class(shown.region), shown.fields.event) else {
            return;
        };
        if class == RegionClass::Operation && self.has_enqueueing {
            return;
        }
        let id = EventId::from_raw(id);
        // The calls of communicators have the ids of their contexts.
        if ContextId::from_raw(id.get()).is_context() {
            return;
        }
        let kind = id.kind();
        if self.last.insert(kind, id.get()) != Some(id.get()) {
            *self.counts.entry(kind).or_insert(0) += 1;
        }
    }

    pub(crate) fn end(&self, statements: &Statements, findings: &mut Findings) {
        for kind in Kind::ALL {
            let (name, written) = (kind.name(), statements.counts.kinds.get(kind).written);
            let found = self.counts.get(&kind).copied().unwrap_or(0);
            if written != found {
                findings.general(Rule::Written, format!("{name}: {written} written, but the archive has {found}"));
            }
        }
        if self.unfinished > 0 && statements.unfinished() == 0 && statements.counts.ranges_unfinished == 0 {
            let number = self.unfinished;
            findings.general(
                Rule::UnfinishedMark,
                format!(
                    "{number} regions are marked unfinished, but none is \
                counted"
                ),
            );
        }
    }
}

/// Checks that every message that is sent is received. Matched messages are forgotten.
#[derive(Default)]
pub(crate) struct Messages {
    /// By communicator, sender, receiver and tag.
    pairs: BTreeMap<(CommRef, u32, u32, u32), PairMessages>,
}

#[derive(Default)]
struct PairMessages {
    sent: u64,
    received: u64,
    /// By size: the excess of sends over receives. Receives are recorded in the order of their ends.
    open: BTreeMap<u64, i64>,
}

impl Messages {
    pub(crate) fn add(&mut self, rank: u32, message: &Message, is_send: bool) {
        let (from, to) = if is_send { (rank, message.peer) } else { (message.peer, rank) };
        let pair = self.pairs.entry((message.comm, from, to, message.tag)).or_default();
        let open = pair.open.entry(message.bytes).or_insert(0);
        if is_send {
            pair.sent += 1;
            *open += 1;
        } else {
            pair.received += 1;
            *open -= 1;
        }
        if *open == 0 {
            pair.open.remove(&message.bytes);
        }
    }

    pub(crate) fn end(
        &self,
        trace: &Trace,
        unreadable: &BTreeSet<LocationRef>,
        remarks: &[Remark],
        findings: &mut Findings,
    ) {
        for ((comm, from, to, _), pair) in &self.pairs {
            let is_known = |rank: u32| {
                let location = usize::try_from(rank).ok().and_then(|at| trace.members(*comm).get(at));
                location.is_some_and(|location| is_known(trace, *location, unreadable))
            };
            if pair.open.is_empty() || !is_known(*from) || !is_known(*to) {
                continue;
            }
            let unreceived = Remark::Unreceived { comm: trace.comm_name(*comm), from: *from, to: *to };
            let (rule, sizes) = if pair.sent == pair.received {
                (Rule::MessageBytes, ", their sizes differ")
            } else if remarks.contains(&unreceived) {
                (Rule::Received, "")
            } else {
                (Rule::MessageMatch, "")
            };
            let message = format!(
                "{}: rank {from} sends {} messages to rank {to}, which receives {}{sizes}",
                trace.comm_name(*comm),
                pair.sent,
                pair.received
            );
            findings.general(rule_unless(rule != Rule::Received && trace.statements.is_partial(), rule), message);
        }
    }
}
