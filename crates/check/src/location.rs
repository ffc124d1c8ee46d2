//! Checks one location: nesting, pairs and references of its events.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::{Findings, Rule};
use analysis::{Trace, is_nccl};
use nccl_events::Kind;
use otf2::{
    AttributeRef, AttributeType, AttributeValue, Collective, CollectiveOp, CommRef, Event, EventKind, LocationRef,
    Message, MetricRef, MetricValue, ParameterRef, RegionRef, RegionRole, RmaAccess, RmaWinRef,
};

/// The open requests of one kind: each is made once and completed once.
#[derive(Debug)]
struct Requests {
    what: &'static str,
    open: BTreeSet<u64>,
}

const SEND: usize = 0;
const RECEIVE: usize = 1;
const COLLECTIVE: usize = 2;

type Violation = Result<(), String>;

impl Requests {
    const fn new(what: &'static str) -> Self {
        Self { what, open: BTreeSet::new() }
    }

    fn make(&mut self, request: u64) -> Violation {
        let is_new = self.open.insert(request);
        is_new.then_some(()).ok_or_else(|| format!("{} request {request} is made twice", self.what))
    }

    fn complete(&mut self, request: u64) -> Violation {
        let was_made = self.open.remove(&request);
        was_made.then_some(()).ok_or_else(|| format!("{} request {request} completes but was not made", self.what))
    }

    fn end(&mut self) -> Vec<String> {
        let open = std::mem::take(&mut self.open).into_iter();
        open.map(|request| format!("{} request {request} never completes", self.what)).collect()
    }
}

pub(super) struct Location<'a> {
    trace: &'a Trace,
    is_nccl: bool,
    location: LocationRef,
    pub(super) findings: &'a mut Findings,
    time: u64,
    open: Vec<(RegionRef, u64)>,
    collective: Option<BegunRegion>,
    /// Indexed by [`SEND`], [`RECEIVE`], [`COLLECTIVE`].
    requests: [Requests; 3],
    /// Puts and gets: matching ids are per window.
    accesses: BTreeMap<RmaWinRef, Requests>,
    /// Steps that had not ended when recording did: their puts do not complete.
    unfinished_steps: usize,
}

#[derive(Clone, Copy)]
struct BegunRegion {
    /// How many regions were open when it began.
    depth: usize,
    with_region: Option<RegionRef>,
}

impl<'a> Location<'a> {
    pub(super) fn new(trace: &'a Trace, location: LocationRef, findings: &'a mut Findings) -> Self {
        Self {
            trace,
            is_nccl: is_nccl(&trace.archive),
            location,
            findings,
            time: 0,
            open: Vec::new(),
            collective: None,
            requests: ["send", "receive", "collective"].map(Requests::new),
            accesses: BTreeMap::new(),
            unfinished_steps: 0,
        }
    }

    fn find(&mut self, rule: Rule, message: impl Into<String>) {
        self.findings.at((self.trace, self.location), Some(self.time), rule, message);
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.time = event.time;
        self.span();
        for (attribute, value) in &event.attributes {
            self.attribute(*attribute, *value);
        }
        match &event.kind {
            EventKind::Enter(region) => {
                if !self.trace.definitions.regions.contains_key(region) {
                    self.find(Rule::Reference, format!("{region:?} is not defined"));
                }
                self.open.push((*region, event.time));
            }
            EventKind::Leave(region) => self.leave(*region),
            EventKind::MpiCollectiveBegin => self.collective_begin(),
            EventKind::MpiCollectiveEnd(collective) => self.collective_end(collective),
            EventKind::NonBlockingCollectiveRequest { request } => self.request_made(COLLECTIVE, *request),
            EventKind::NonBlockingCollectiveComplete { collective, request } => {
                self.request_completed(COLLECTIVE, *request);
                self.member(collective.comm, collective.root);
            }
            EventKind::MpiIsend { message, request } => {
                self.request_made(SEND, *request);
                self.message(message);
            }
            EventKind::MpiIsendComplete { request } => self.request_completed(SEND, *request),
            EventKind::MpiIrecvRequest { request } => self.request_made(RECEIVE, *request),
            EventKind::MpiIrecv { message, request } => {
                self.request_completed(RECEIVE, *request);
                self.message(message);
            }
            EventKind::MpiSend(message) | EventKind::MpiRecv(message) => self.message(message),
            EventKind::RmaPut(access) | EventKind::RmaGet(access) => self.access(access),
            EventKind::RmaOpCompleteBlocking { win, matching }
            | EventKind::RmaOpCompleteNonBlocking { win, matching } => {
                self.access_completes(*win, *matching);
            }
            EventKind::Metric { metric, values } => self.metric(*metric, values),
            EventKind::ParameterUnsignedInt { parameter, .. } => {
                self.parameter(*parameter);
                self.record(*parameter, event);
            }
            EventKind::ParameterInt { parameter, .. } | EventKind::ParameterString { parameter, .. } => {
                self.parameter(*parameter);
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self) {
        for (region, since) in std::mem::take(&mut self.open).iter().rev() {
            let name = self.trace.region_name(*region);
            self.find(Rule::Nesting, format!("{name}, entered at {since}, is never left"));
        }
        if self.collective.is_some() {
            self.find(Rule::CollectivePair, "a collective begins but does not end");
        }
        for message in self.requests.each_mut().map(Requests::end).into_iter().flatten() {
            self.find(Rule::Request, message);
        }
        let open = std::mem::take(&mut self.accesses);
        for message in open.into_values().flat_map(|mut requests| requests.end()).skip(self.unfinished_steps) {
            self.remote_access(Err(message));
        }
    }

    fn parameter(&mut self, parameter: ParameterRef) {
        if !self.trace.definitions.parameters.contains_key(&parameter) {
            self.find(Rule::Reference, format!("{parameter:?} is not defined"));
        }
    }

    fn record(&mut self, parameter: ParameterRef, event: &Event) {
        let Some(recorded) = self.trace.recorded(event) else {
            let is_defined = self.trace.definitions.parameters.contains_key(&parameter);
            if is_defined && self.trace.location_kind(self.location).is_some() {
                self.find(Rule::Reference, format!("no operation or work has the name of {parameter:?}"));
            }
            return;
        };
        // Only what is sent is put.
        let is_step = self.trace.role(recorded.region).is_some_and(|role| role.kind() == Kind::ProxyStep);
        let may_be_put = is_step && self.trace.is_send(recorded.region) == Some(true);
        let is_unfinished = self.trace.fields_of(&event.attributes).is_unfinished == Some(true);
        self.unfinished_steps += usize::from(may_be_put && is_unfinished);
    }

    fn request_made(&mut self, of: usize, request: u64) {
        self.requests[of].make(request).unwrap_or_else(|message| self.find(Rule::Request, message));
    }

    fn request_completed(&mut self, of: usize, request: u64) {
        self.requests[of].complete(request).unwrap_or_else(|message| self.find(Rule::Request, message));
    }

    fn span(&mut self) {
        let Some(clock) = self.trace.definitions.clock else {
            return;
        };
        let (first, last) = (clock.global_offset, clock.global_offset.saturating_add(clock.trace_length));
        if !(first..=last).contains(&self.time) {
            self.find(Rule::Span, format!("the clock properties span {first} to {last} only"));
        }
    }

    fn leave(&mut self, region: RegionRef) {
        let name = |region| self.trace.region_name(region);
        match self.open.pop() {
            Some((open, _)) if open == region => {}
            Some((open, since)) => {
                let message = format!("{} is left inside {}, entered at {since}", name(region), name(open));
                // Continues as if the left region were innermost, so that one error gives one finding.
                match self.open.iter().rposition(|(open, _)| *open == region) {
                    Some(depth) => self.open.truncate(depth),
                    None => self.open.push((open, since)),
                }
                self.find(Rule::Nesting, message);
            }
            None => self.find(Rule::Nesting, format!("{} is left but was not entered", name(region))),
        }
    }

    fn attribute(&mut self, attribute: AttributeRef, value: AttributeValue) {
        let definitions = &self.trace.definitions;
        let Some(definition) = definitions.attributes.get(&attribute) else {
            self.find(Rule::Reference, format!("{attribute:?} is not defined"));
            return;
        };
        let (wanted, here) = (definition.attribute_type, value.attribute_type());
        if wanted != here {
            let name = definitions.string(definition.name).unwrap_or_default();
            self.find(Rule::AttributeType, format!("the attribute {name} is a {wanted:?} but has a {here:?}"));
        }
        if let AttributeValue::String(string) = value
            && !definitions.strings.contains_key(&string)
        {
            self.find(Rule::Reference, format!("{string:?} is not defined"));
        }
    }

    fn collective_begin(&mut self) {
        if self.collective.is_some() {
            self.find(Rule::CollectivePair, "a collective begins before the one before has ended");
        }
        // A collective that the one before held up may lie in the region of another.
        let with_region = self.open.last().filter(|(_, since)| *since == self.time);
        self.collective =
            Some(BegunRegion { depth: self.open.len(), with_region: with_region.map(|(region, _)| *region) });
    }

    fn collective_end(&mut self, collective: &Collective) {
        match self.collective.take() {
            None => self.find(Rule::CollectivePair, "a collective ends that did not begin"),
            Some(begun) => {
                let region = begun.with_region.filter(|_| self.open.len() == begun.depth);
                region.into_iter().for_each(|region| self.role(region, collective.op));
            }
        }
        self.member(collective.comm, collective.root);
    }

    fn role(&mut self, region: RegionRef, op: CollectiveOp) {
        let Some(role) = self.trace.definitions.regions.get(&region).map(|region| region.role) else {
            return;
        };
        let is_one_to_all = matches!(op, CollectiveOp::Bcast | CollectiveOp::Scatter | CollectiveOp::Scatterv);
        let is_all_to_one = matches!(op, CollectiveOp::Reduce | CollectiveOp::Gather | CollectiveOp::Gatherv);
        let fits = match role {
            RegionRole::Barrier => op == CollectiveOp::Barrier,
            RegionRole::CollOne2All => is_one_to_all,
            RegionRole::CollAll2One => is_all_to_one,
            RegionRole::CollAll2All => !is_one_to_all && !is_all_to_one,
            RegionRole::Point2Point => false,
            _ => true,
        };
        if !fits {
            let name = self.trace.region_name(region);
            self.find(Rule::CollectiveRole, format!("{name} has the role {role:?} and ends as the collective {op:?}"));
        }
    }

    /// Other writers complete puts and gets by locks, fences and flushes, which are not read here.
    fn remote_access(&mut self, made: Violation) {
        if let (Err(message), true) = (made, self.is_nccl) {
            self.find(Rule::RemoteAccess, message);
        }
    }

    fn accesses(&mut self, win: RmaWinRef) -> &mut Requests {
        self.accesses.entry(win).or_insert_with(|| Requests::new("put or get"))
    }

    fn access(&mut self, access: &RmaAccess) {
        let Some(win) = self.trace.definitions.rma_wins.get(&access.win) else {
            self.find(Rule::Reference, format!("{:?} is not defined", access.win));
            return;
        };
        let size = self.trace.members(win.comm).len() as u64;
        let has_all = self.trace.statements.ranks_unlocated.get() == 0;
        if size > 0 && has_all && u64::from(access.remote) >= size {
            let message = format!("rank {} is not in the {size} ranks of {:?}", access.remote, access.win);
            self.find(Rule::Membership, message);
        }
        let made = self.accesses(access.win).make(access.matching);
        self.remote_access(made);
    }

    fn access_completes(&mut self, win: RmaWinRef, matching: u64) {
        if !self.trace.definitions.rma_wins.contains_key(&win) {
            self.find(Rule::Reference, format!("{win:?} is not defined"));
            return;
        }
        let made = self.accesses(win).complete(matching);
        self.remote_access(made);
    }

    fn metric(&mut self, metric: MetricRef, values: &[MetricValue]) {
        let definitions = &self.trace.definitions;
        let Some(class) = definitions.metric_classes.get(&metric) else {
            // The reader only counts instances, which share their numbers with classes.
            if !definitions.others.contains_key("MetricInstance") {
                self.find(Rule::Reference, format!("{metric:?} is not defined"));
            }
            return;
        };
        let (wanted, here) = (class.members.len(), values.len());
        if wanted != here {
            self.find(Rule::Metric, format!("{metric:?} has {wanted} members, but there are {here} values"));
            return;
        }
        for (member, value) in class.members.iter().zip(values) {
            let wanted = definitions.metric_members.get(member).map(|member| member.value_type);
            let here = match value {
                MetricValue::U64(_) => AttributeType::U64,
                MetricValue::I64(_) => AttributeType::I64,
                MetricValue::F64(_) => AttributeType::F64,
            };
            if let Some(wanted) = wanted.filter(|wanted| *wanted != here) {
                self.find(Rule::Metric, format!("{member:?} is a {wanted:?} but has a {here:?}"));
            }
        }
    }

    fn message(&mut self, message: &Message) {
        self.member(message.comm, Some(message.peer));
    }

    /// Checks that this location and the other rank are members of the communicator.
    fn member(&mut self, comm: CommRef, other: Option<u32>) {
        if !self.trace.definitions.has_comm(comm) {
            self.find(Rule::Reference, format!("{comm:?} is not defined"));
            return;
        }
        if let Some(groups) = self.trace.groups(comm) {
            self.member_of_either(comm, groups, other);
            return;
        }
        let size = self.trace.members(comm).len() as u64;
        // A communicator without members was already reported with the definitions.
        if size == 0 {
            return;
        }
        let is_member = self.trace.rank(self.location, comm).is_some();
        if !is_member && !self.is_thread_of(self.trace.members(comm)) {
            self.find(Rule::Membership, format!("the location is not a member of {comm:?}"));
        }
        // Ranks without a location are no members.
        let has_all = self.trace.statements.ranks_unlocated.get() == 0;
        if let Some(other) = other.filter(|other| has_all && u64::from(*other) >= size) {
            self.find(Rule::Membership, format!("rank {other} is not in {comm:?} of {size} ranks"));
        }
    }

    /// Checks the same for an intercommunicator, where the other rank is in the other group.
    fn member_of_either(&mut self, comm: CommRef, groups: &[Vec<LocationRef>; 2], other: Option<u32>) {
        if groups.iter().any(Vec::is_empty) {
            return;
        }
        let is_in = |group: &Vec<LocationRef>| group.contains(&self.location) || self.is_thread_of(group);
        let others = match groups.each_ref().map(is_in) {
            [false, false] => return self.find(Rule::Membership, format!("the location is not a member of {comm:?}")),
            [true, false] => groups[1].len(),
            [false, true] => groups[0].len(),
            // Two ranks may be on one location.
            [true, true] => groups[0].len().max(groups[1].len()),
        };
        // The root of a collective may be this location, or in its group (OTF2_COLLECTIVE_ROOT_SELF, …_THIS_GROUP).
        let is_special = |rank: &u32| *rank >= u32::MAX - 2;
        if let Some(other) = other.filter(|rank| !is_special(rank) && u64::from(*rank) >= others as u64) {
            self.find(
                Rule::Membership,
                format!("rank {other} is not in the other group of {comm:?}, of {others} ranks"),
            );
        }
    }

    /// In MPI, a rank is a process: its other threads may communicate, too.
    fn is_thread_of(&self, members: &[LocationRef]) -> bool {
        let locations = &self.trace.definitions.locations;
        let process = |location| {
            let is_thread =
                |location: &&otf2::records::Location| location.location_type == otf2::LocationType::CpuThread;
            locations.get(location).filter(is_thread).map(|location| location.group)
        };
        let own = process(&self.location);
        own.is_some() && members.iter().any(|member| process(member) == own)
    }
}
