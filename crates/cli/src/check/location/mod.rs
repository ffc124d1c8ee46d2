//! One location: nesting, pairs and references of its events.

mod requests;

use std::collections::BTreeMap;

use analysis::Trace;
use otf2::{
    AttributeRef, AttributeType, AttributeValue, Collective, CollectiveOp, CommRef, Event, EventKind, LocationRef,
    Message, MetricRef, MetricValue, RegionRef, RegionRole, RmaAccess, RmaWinRef,
};

use super::findings::Findings;
use super::rules::Rule;
use crate::archive::is_nccl;
use requests::Requests;

/// The state of a location while its events go by.
pub(super) struct Location<'a> {
    trace: &'a Trace,
    is_nccl: bool,
    location: LocationRef,
    pub(super) findings: &'a mut Findings,
    time: u64,
    open: Vec<(RegionRef, u64)>,
    /// Where a collective began: how deep, and whether with the region around it.
    collective: Option<Begun>,
    sends: Requests,
    receives: Requests,
    collectives: Requests,
    /// Puts and gets, whose matching ids are those of their window.
    accesses: BTreeMap<RmaWinRef, Requests>,
    /// The last one made, until the region around it is left.
    last_access: Option<(RmaWinRef, u64)>,
}

#[derive(Clone, Copy)]
struct Begun {
    depth: usize,
    with_region: Option<RegionRef>,
}

impl<'a> Location<'a> {
    /// A location, before its first event.
    pub(super) fn new(trace: &'a Trace, location: LocationRef, findings: &'a mut Findings) -> Self {
        Self {
            trace,
            is_nccl: is_nccl(&trace.archive),
            location,
            findings,
            time: 0,
            open: Vec::new(),
            collective: None,
            sends: Requests::new("send"),
            receives: Requests::new("receive"),
            collectives: Requests::new("collective"),
            accesses: BTreeMap::new(),
            last_access: None,
        }
    }

    fn find(&mut self, rule: Rule, message: impl Into<String>) {
        let place = (self.trace, self.location);
        self.findings.at(place, Some(self.time), rule, message);
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.time = event.time;
        self.span();
        for (attribute, value) in &event.attributes {
            self.attribute(*attribute, *value);
        }
        match &event.kind {
            EventKind::Enter(region) => {
                self.region(*region);
                self.open.push((*region, event.time));
            }
            EventKind::Leave(region) => {
                self.leave(*region);
                self.access_may_stay_open(event);
            }
            EventKind::MpiCollectiveBegin => self.collective_begin(),
            EventKind::MpiCollectiveEnd(collective) => self.collective_end(collective),
            EventKind::NonBlockingCollectiveRequest { request } => {
                let wrong = self.collectives.make(*request);
                self.request(wrong);
            }
            EventKind::NonBlockingCollectiveComplete { collective, request } => {
                let wrong = self.collectives.complete(*request);
                self.request(wrong);
                self.member(collective.comm, collective.root);
            }
            EventKind::MpiIsend { message, request } => {
                let wrong = self.sends.make(*request);
                self.request(wrong);
                self.message(message);
            }
            EventKind::MpiIsendComplete { request } => {
                let wrong = self.sends.complete(*request);
                self.request(wrong);
            }
            EventKind::MpiIrecvRequest { request } => {
                let wrong = self.receives.make(*request);
                self.request(wrong);
            }
            EventKind::MpiIrecv { message, request } => {
                let wrong = self.receives.complete(*request);
                self.request(wrong);
                self.message(message);
            }
            EventKind::MpiSend(message) | EventKind::MpiRecv(message) => self.message(message),
            EventKind::RmaPut(access) | EventKind::RmaGet(access) => self.access(access),
            EventKind::RmaOpCompleteBlocking { win, matching }
            | EventKind::RmaOpCompleteNonBlocking { win, matching } => {
                self.access_completes(*win, *matching);
            }
            EventKind::Metric { metric, values } => self.metric(*metric, values),
            _ => {}
        }
    }

    /// No more events.
    pub(super) fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        for (region, since) in open.iter().rev() {
            let name = self.trace.region_name(*region);
            self.find(Rule::Nesting, format!("{name}, entered at {since}, is never left"));
        }
        if self.collective.is_some() {
            self.find(Rule::CollectivePair, "a collective begins and does not end");
        }
        let requests = [&mut self.sends, &mut self.receives, &mut self.collectives];
        for message in requests.map(Requests::end).into_iter().flatten() {
            self.find(Rule::Request, message);
        }
        for accesses in std::mem::take(&mut self.accesses).values_mut() {
            for message in accesses.end() {
                self.remote_access(Some(message));
            }
        }
    }

    fn request(&mut self, wrong: Option<String>) {
        if let Some(message) = wrong {
            self.find(Rule::Request, message);
        }
    }

    fn span(&mut self) {
        let Some(clock) = self.trace.definitions.clock else {
            return;
        };
        let last = clock.global_offset.saturating_add(clock.trace_length);
        if self.time < clock.global_offset || self.time > last {
            let message = format!("the clock properties span {} to {last} only", clock.global_offset);
            self.find(Rule::Span, message);
        }
    }

    fn region(&mut self, region: RegionRef) {
        if !self.trace.definitions.regions.contains_key(&region) {
            self.find(Rule::Reference, format!("{region:?} is not defined"));
        }
    }

    fn leave(&mut self, region: RegionRef) {
        let name = |region| self.trace.region_name(region);
        match self.open.pop() {
            Some((open, _)) if open == region => {}
            Some((open, since)) => {
                let message = format!("{} is left inside {}, entered at {since}", name(region), name(open));
                // Go on with what was meant, so that one slip is one finding.
                match self.open.iter().rposition(|(open, _)| *open == region) {
                    Some(depth) => self.open.truncate(depth),
                    None => self.open.push((open, since)),
                }
                self.find(Rule::Nesting, message);
            }
            None => {
                let message = format!("{} is left and was not entered", name(region));
                self.find(Rule::Nesting, message);
            }
        }
    }

    fn attribute(&mut self, attribute: AttributeRef, value: AttributeValue) {
        let definitions = &self.trace.definitions;
        let Some(definition) = definitions.attributes.get(&attribute) else {
            self.find(Rule::Reference, format!("{attribute:?} is not defined"));
            return;
        };
        if definition.attribute_type != value.attribute_type() {
            let name = definitions.string(definition.name).unwrap_or_default();
            let message = format!(
                "the attribute {name} is a {:?} and has a {:?}",
                definition.attribute_type,
                value.attribute_type()
            );
            self.find(Rule::AttributeType, message);
        }
        if let AttributeValue::String(string) = value
            && !definitions.strings.contains_key(&string)
        {
            self.find(Rule::Reference, format!("{string:?} is not defined"));
        }
    }

    fn collective_begin(&mut self) {
        if self.collective.is_some() {
            let message = "a collective begins before the one before has ended";
            self.find(Rule::CollectivePair, message);
        }
        let around = self.open.last();
        // Collectives of one fused kernel follow each other inside the region of the first: only that
        // which begins with the region belongs to it for certain, and not even that beside a sibling.
        let has_siblings = !self.trace.siblings(self.location).is_empty();
        let with_region = around.filter(|(_, since)| *since == self.time && !has_siblings);
        self.collective = Some(Begun { depth: self.open.len(), with_region: with_region.map(|(region, _)| *region) });
    }

    fn collective_end(&mut self, collective: &Collective) {
        match self.collective.take() {
            None => self.find(Rule::CollectivePair, "a collective ends that did not begin"),
            Some(begun) => {
                let still_open = self.open.len() == begun.depth;
                if let (true, Some(region)) = (still_open, begun.with_region) {
                    self.role(region, collective.op);
                }
            }
        }
        self.member(collective.comm, collective.root);
    }

    fn role(&mut self, region: RegionRef, op: CollectiveOp) {
        let definition = self.trace.definitions.regions.get(&region);
        let Some(role) = definition.map(|region| region.role) else {
            return;
        };
        let fits = match role {
            RegionRole::Barrier => op == CollectiveOp::Barrier,
            RegionRole::CollOne2All => {
                matches!(op, CollectiveOp::Bcast | CollectiveOp::Scatter | CollectiveOp::Scatterv)
            }
            RegionRole::CollAll2One => {
                matches!(op, CollectiveOp::Reduce | CollectiveOp::Gather | CollectiveOp::Gatherv)
            }
            RegionRole::CollAll2All => !matches!(
                op,
                CollectiveOp::Bcast
                    | CollectiveOp::Scatter
                    | CollectiveOp::Scatterv
                    | CollectiveOp::Reduce
                    | CollectiveOp::Gather
                    | CollectiveOp::Gatherv
            ),
            RegionRole::Point2Point => false,
            _ => true,
        };
        if !fits {
            let name = self.trace.region_name(region);
            let message = format!("{name} has the role {role:?} and ends as the collective {op:?}");
            self.find(Rule::CollectiveRole, message);
        }
    }

    /// Other writers complete puts and gets in ways that are not looked at: by locks, fences, flushes.
    fn remote_access(&mut self, wrong: Option<String>) {
        if let Some(message) = wrong
            && self.is_nccl
        {
            self.find(Rule::RemoteAccess, message);
        }
    }

    fn access(&mut self, access: &RmaAccess) {
        let Some(win) = self.trace.definitions.rma_wins.get(&access.win) else {
            self.find(Rule::Reference, format!("{:?} is not defined", access.win));
            return;
        };
        let size = self.trace.members(win.comm).len() as u64;
        if size > 0 && u64::from(access.remote) >= size {
            let message = format!("rank {} is not in the {size} ranks of {:?}", access.remote, access.win);
            self.find(Rule::Membership, message);
        }
        let open = self.accesses.entry(access.win);
        let open = open.or_insert_with(|| Requests::new("put or get"));
        let wrong = open.make(access.matching);
        self.last_access = Some((access.win, access.matching));
        self.remote_access(wrong);
    }

    /// What was under way when recording ended does not complete, and says so.
    fn access_may_stay_open(&mut self, left: &Event) {
        let last = self.last_access.take();
        if let Some((win, matching)) = last
            && self.trace.fields(left).is_unfinished == Some(true)
            && let Some(open) = self.accesses.get_mut(&win)
        {
            let _under_way = open.complete(matching);
        }
    }

    fn access_completes(&mut self, win: RmaWinRef, matching: u64) {
        if !self.trace.definitions.rma_wins.contains_key(&win) {
            self.find(Rule::Reference, format!("{win:?} is not defined"));
            return;
        }
        let open = self.accesses.entry(win);
        let open = open.or_insert_with(|| Requests::new("put or get"));
        let wrong = open.complete(matching);
        self.remote_access(wrong);
    }

    fn metric(&mut self, metric: MetricRef, values: &[MetricValue]) {
        let definitions = &self.trace.definitions;
        let Some(class) = definitions.metric_classes.get(&metric) else {
            // The reader only counts instances; they share their numbers with classes.
            if !definitions.others.contains_key("MetricInstance") {
                self.find(Rule::Reference, format!("{metric:?} is not defined"));
            }
            return;
        };
        let (wanted, here) = (class.members.len(), values.len());
        if wanted != here {
            let message = format!("{metric:?} has {wanted} members, {here} values are here");
            self.find(Rule::Metric, message);
            return;
        }
        let pairs = class.members.iter().zip(values);
        let wrong = pairs.filter_map(|(member, value)| {
            let wanted = definitions.metric_members.get(member)?.value_type;
            let here = match value {
                MetricValue::U64(_) => AttributeType::U64,
                MetricValue::I64(_) => AttributeType::I64,
                MetricValue::F64(_) => AttributeType::F64,
            };
            (wanted != here).then(|| format!("{member:?} is a {wanted:?} and has a {here:?}"))
        });
        let wrong: Vec<String> = wrong.collect();
        for message in wrong {
            self.find(Rule::Metric, message);
        }
    }

    fn message(&mut self, message: &Message) {
        self.member(message.comm, Some(message.peer));
    }

    /// This location and the other rank are members of the communicator.
    fn member(&mut self, comm: CommRef, other: Option<u32>) {
        if !self.trace.definitions.comms.contains_key(&comm) {
            self.find(Rule::Reference, format!("{comm:?} is not defined"));
            return;
        }
        let size = self.trace.members(comm).len() as u64;
        // Without members the definition of the communicator was found wrong already.
        if size == 0 {
            return;
        }
        if self.trace.rank(self.location, comm).is_none() && !self.is_thread_of_a_member(comm) {
            self.find(Rule::Membership, format!("the location is no member of {comm:?}"));
        }
        if let Some(other) = other.filter(|other| u64::from(*other) >= size) {
            let message = format!("rank {other} is not in {comm:?} of {size} ranks");
            self.find(Rule::Membership, message);
        }
    }

    /// In MPI a rank is a process: other threads than the member's may speak for it.
    fn is_thread_of_a_member(&self, comm: CommRef) -> bool {
        let locations = &self.trace.definitions.locations;
        let process = |location| {
            let is_thread = |it: &&otf2::records::Location| it.location_type == otf2::LocationType::CpuThread;
            locations.get(location).filter(is_thread).map(|it| it.group)
        };
        let own = process(&self.location);
        own.is_some() && self.trace.members(comm).iter().any(|member| process(member) == own)
    }
}
