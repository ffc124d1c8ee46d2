//! Prints an archive event by event, in time order across locations: `nccl-otf2 print` of an archive.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use crate::command_line::{AvailableValues, Exit};
use crate::listing_output::{Columns, Line, Output};
use crate::print::process::Filter;
use crate::print::values;
use crate::print::values::{Json, List, Value, pairs};
use crate::{archives, output};
use analysis::units::plural;
use analysis::{LaneKind, Recorded, Trace, units};
use anyhow::{Context as _, Result, bail};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass};
use otf2::{
    AttributeValue, Collective, CommRef, Event, EventKind, LocationGroupRef, LocationRef, Message, MetricRef,
    MetricValue, Paradigm, RegionRef, RegionRole, RmaAccess, RmaWinRef,
};
use rustix::process::{Resource, getrlimit, setrlimit};

pub(crate) fn print(path: &Path, filter: &Filter, json: bool) -> Result<Exit> {
    let trace = archives::open(path)?;
    refuse_unknown(filter)?;
    let clock = Clock::from_trace(&trace);
    let present = AvailableValues::new(&trace, clock.begin_ns, |comm| wants_comm(&trace, comm, filter));
    let comms = || trace.definitions.comms.keys();
    filter.refuse_absent(&present, |single| comms().any(|comm| wants_comm(&trace, *comm, single)))?;
    let locations = trace.definitions.locations.keys().copied();
    let mut wanted: Vec<LocationRef> =
        locations.filter(|location| trace.has_events(*location) && wanted(&trace, *location, filter)).collect();
    // A thread of the proxy works for several ranks: of one that is not wanted itself, the records of wanted ranks are.
    let mut by_record = trace.locations_of(&[LocationKind::ProxyThread]);
    let process = |location: &LocationRef| trace.process(trace.group(*location));
    let processes: BTreeSet<LocationGroupRef> = wanted.iter().map(process).collect();
    by_record.retain(|location| wanted.binary_search(location).is_err() && processes.contains(&process(location)));
    by_record.sort_unstable();
    let ranks: Vec<LocationRef> = wanted.clone();
    wanted.extend(&by_record);
    open_many_files();
    let mut output = Output::new(filter.limit);
    let mut reading = EventReader {
        filter,
        trace: &trace,
        clock,
        open: BTreeMap::new(),
        is_held_back: true,
        ranks,
        by_record,
        printer: Printer::new(&trace, &wanted, json),
    };
    reading.printer.head(&mut output)?;
    let mut written = Ok(());
    trace
        .archive
        .for_each_event(&wanted, |location, event| match reading.event(location, event, &mut output) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                written = Err(error);
                ControlFlow::Break(())
            }
        })
        .context("the archive cannot be read; run `nccl-otf2 check` for details")?;
    written?;
    if reading.is_held_back {
        reading.release(&mut output)?;
    }
    filter.refuse_nothing(&present, output.lines)?;
    output.finish()?;
    Ok(remark(&trace))
}

/// Prints what the archive states that it lacks.
fn remark(trace: &Trace) -> Exit {
    let (lost, problems) = (trace.statements.counts.lost(), trace.statements.problems.number.get());
    if lost > 0 {
        let calls = plural(lost, "call was", "calls were");
        output::note(format_args!("{}: {calls} not recorded", trace.anchor.display()));
    }
    if problems > 0 {
        let problems = plural(problems, "problem", "problems");
        output::note(format_args!(
            "{}: {problems} when it was written; `nccl-otf2 info` lists them",
            trace.anchor.display()
        ));
    }
    if trace.statements.has_gaps() { Exit::Problems } else { Exit::Well }
}

fn refuse_unknown(filter: &Filter) -> Result<()> {
    let kinds = || Kind::ALL.iter().map(|kind| kind.name()).chain([values::RANGE_KIND, values::GPU_KIND]);
    let unknown =
        filter.unknown_kinds(|single| kinds().chain(NAMES.iter().copied()).any(|name| single.wants_kind(name)));
    let Some(kind) = unknown.first() else {
        return Ok(());
    };
    bail!(
        "--kind {kind}: no such kind; the kinds are NCCL's {}; and OTF2's records {}",
        // An archive has no events of unknown kinds.
        kinds().filter(|kind| *kind != Kind::Unknown.name()).collect::<Vec<_>>().join(", "),
        NAMES.join(", ")
    );
}

/// libotf2 keeps a file open for every location, which can exceed the usual limit of 1024.
fn open_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit cannot be raised, libotf2's own error names the cause.
    let _as_it_was = setrlimit(Resource::Nofile, limit);
}

struct Clock {
    ticks_per_second: u64,
    begin_ns: u64,
}

impl Clock {
    fn from_trace(trace: &Trace) -> Self {
        let clock = trace.definitions.clock.as_ref();
        let mut found =
            Self { ticks_per_second: clock.map_or(1_000_000_000, |clock| clock.timer_resolution.max(1)), begin_ns: 0 };
        found.begin_ns = found.ns(clock.map_or(0, |clock| clock.global_offset));
        found
    }

    fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

struct OpenRegion {
    region: RegionRef,
    ns: u64,
    /// The kind of NCCL event that the region shows, or that its enclosing region shows; or a range of the program, or
    /// work of a GPU.
    kind: Option<&'static str>,
    /// The ENTER, held back because it precedes the wanted time.
    held_back: Option<Event>,
}

struct EventReader<'a> {
    filter: &'a Filter,
    trace: &'a Trace,
    clock: Clock,
    open: BTreeMap<LocationRef, Vec<OpenRegion>>,
    /// True until the first event of the wanted time.
    is_held_back: bool,
    /// The wanted locations, ascending.
    ranks: Vec<LocationRef>,
    /// Locations of which only records of these are wanted.
    by_record: Vec<LocationRef>,
    printer: Printer<'a>,
}

impl EventReader<'_> {
    /// Returns `false` when no more events are wanted.
    fn event(&mut self, location: LocationRef, event: &Event, output: &mut Output) -> Result<bool> {
        let ns = self.clock.ns(event.time);
        let begin_ns = self.clock.begin_ns;
        let recorded = self.trace.recorded(event);
        // A record comes at the end of what it shows.
        let start_ns = recorded.map_or(ns, |recorded| ns.saturating_sub(recorded.duration_ns));
        if !self.filter.wants_time(begin_ns, start_ns, None) {
            return Ok(!self.trace.definitions.parameters.is_empty());
        }
        let is_early = !self.filter.wants_time(begin_ns, ns, Some(ns));
        if self.is_held_back && !is_early && !self.release(output)? {
            return Ok(false);
        }
        if self.by_record.binary_search(&location).is_ok()
            && !recorded.is_some_and(|recorded| self.wants_record(event, recorded))
        {
            return Ok(true);
        }
        let own = match &event.kind {
            EventKind::Enter(region) => self.kind_of_region(*region),
            EventKind::RmaPut(_) | EventKind::RmaOpCompleteNonBlocking { .. } => Some(Kind::ProxyStep.name()),
            _ => recorded.and_then(|recorded| self.kind_of_region(recorded.region)),
        };
        let open = self.open.entry(location).or_default();
        let kind = own.or(open.last().and_then(|open| open.kind));
        let is_wanted =
            self.filter.wants_kind(name(&event.kind)) || kind.is_some_and(|kind| self.filter.wants_kind(kind));
        let mut depth = open.len();
        let mut duration_ns = recorded.map(|recorded| recorded.duration_ns);
        match &event.kind {
            EventKind::Enter(region) => open.push(OpenRegion {
                region: *region,
                ns,
                kind,
                held_back: (is_early && is_wanted).then(|| event.clone()),
            }),
            // An archive of another writer may leave a region that it did not enter.
            EventKind::Leave(region) if open.last().is_some_and(|last| last.region == *region) => {
                duration_ns = open.pop().map(|entered| ns.saturating_sub(entered.ns));
                depth = open.len();
            }
            _ => {}
        }
        if is_early || !is_wanted {
            return Ok(true);
        }
        let shown = ShownEvent { location, event, after_ns: ns.saturating_sub(begin_ns), depth, duration_ns };
        self.printer.line(&shown, output)
    }

    /// Whether a record is of a wanted rank.
    fn wants_record(&self, event: &Event, recorded: Recorded) -> bool {
        let connection = self.trace.lane_of(recorded.region, &event.attributes).and_then(LaneKind::connection);
        let member = connection.and_then(|connection| connection.member(self.trace));
        member.is_some_and(|member| self.ranks.binary_search(&member).is_ok())
    }

    /// The kind that a region itself shows, whatever is inside it.
    fn kind_of_region(&self, region: RegionRef) -> Option<&'static str> {
        if let Some(role) = self.trace.role(region) {
            return Some(role.kind().name());
        }
        let definition = self.trace.definitions.regions.get(&region)?;
        match self.trace.class(region) {
            Some(RegionClass::User | RegionClass::Mark) => Some(values::RANGE_KIND),
            Some(RegionClass::Fused) if definition.role == RegionRole::Point2Point => Some(Kind::P2p.name()),
            Some(RegionClass::Fused) => Some(Kind::Coll.name()),
            _ => (definition.paradigm == Paradigm::Cuda).then_some(values::GPU_KIND),
        }
    }

    /// Prints the regions that were entered before the wanted time and have not been left.
    fn release(&mut self, output: &mut Output) -> Result<bool> {
        self.is_held_back = false;
        let mut held = Vec::new();
        for (location, open) in &mut self.open {
            for (depth, open) in open.iter_mut().enumerate() {
                if let Some(event) = open.held_back.take() {
                    held.push((open.ns, *location, depth, event));
                }
            }
        }
        held.sort_by_key(|(ns, location, depth, _)| (*ns, *location, *depth));
        for (ns, location, depth, event) in held {
            let shown = ShownEvent {
                location,
                event: &event,
                after_ns: ns.saturating_sub(self.clock.begin_ns),
                depth,
                duration_ns: None,
            };
            if !self.printer.line(&shown, output)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

macro_rules! names {
    ($($name:ident)*) => {
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub(crate) fn name(kind: &EventKind) -> &'static str {
            match kind {
                $(EventKind::$name { .. } => stringify!($name),)*
                EventKind::Other(name) => name,
                _ => "Unknown",
            }
        }
    };
}

names! {
    Enter Leave MpiCollectiveBegin MpiCollectiveEnd NonBlockingCollectiveRequest NonBlockingCollectiveComplete MpiSend
    MpiRecv MpiIsend MpiIsendComplete MpiIrecvRequest MpiIrecv RmaPut RmaGet RmaOpCompleteBlocking
    RmaOpCompleteNonBlocking Metric ParameterString ParameterInt ParameterUnsignedInt MeasurementOnOff
}

/// The fields of a record other than attributes, named as in `docs/REFERENCE.md` §10. Fields that end in `Ref` are for
/// programs.
pub(crate) fn fields<'a>(trace: &'a Trace, kind: &EventKind) -> List<'a> {
    match kind {
        EventKind::Enter(region) | EventKind::Leave(region) => {
            vec![("region", trace.region_name(*region).into()), ("regionRef", region.get().into())]
        }
        EventKind::MpiCollectiveEnd(collective) => collective_values(trace, collective),
        EventKind::NonBlockingCollectiveComplete { collective, request } => {
            with_request(collective_values(trace, collective), *request)
        }
        EventKind::NonBlockingCollectiveRequest { request }
        | EventKind::MpiIsendComplete { request }
        | EventKind::MpiIrecvRequest { request } => with_request(List::new(), *request),
        EventKind::MpiSend(message) | EventKind::MpiRecv(message) => message_values(trace, message),
        EventKind::MpiIsend { message, request } | EventKind::MpiIrecv { message, request } => {
            with_request(message_values(trace, message), *request)
        }
        EventKind::RmaPut(access) | EventKind::RmaGet(access) => access_values(trace, access),
        EventKind::RmaOpCompleteBlocking { win, matching } | EventKind::RmaOpCompleteNonBlocking { win, matching } => {
            let mut list = window_values(trace, *win);
            list.push(("matching", Value::Unsigned(*matching)));
            list
        }
        EventKind::Metric { metric, values } => metric_values(trace, *metric, values),
        EventKind::ParameterString { parameter, value } => {
            parameter_of(trace, *parameter, trace.definitions.string(*value).unwrap_or_default().into())
        }
        EventKind::ParameterInt { parameter, value } => parameter_of(trace, *parameter, Value::Signed(*value)),
        EventKind::ParameterUnsignedInt { parameter, value } => {
            parameter_of(trace, *parameter, Value::Unsigned(*value))
        }
        EventKind::MeasurementOnOff(mode) => vec![("mode", format!("{mode:?}").into())],
        _ => List::new(),
    }
}

/// The attributes of an event, by name or, without a name, by reference.
pub(crate) fn attributes<'a>(trace: &'a Trace, event: &Event) -> Vec<(String, Value<'a>)> {
    let attributes = event.attributes.iter().map(|(reference, value)| {
        let definition = trace.definitions.attributes.get(reference);
        let name = definition
            .and_then(|attribute| trace.definitions.string(attribute.name))
            .map_or_else(|| format!("attribute {}", reference.get()), str::to_owned);
        (name, value_of(trace, *value))
    });
    attributes.collect()
}

fn value_of(trace: &Trace, value: AttributeValue) -> Value<'_> {
    match value {
        AttributeValue::U8(value) => value.into(),
        AttributeValue::U16(value) => value.into(),
        AttributeValue::U32(value) => value.into(),
        AttributeValue::U64(value) => value.into(),
        AttributeValue::I8(value) => value.into(),
        AttributeValue::I16(value) => value.into(),
        AttributeValue::I32(value) => value.into(),
        AttributeValue::I64(value) => value.into(),
        AttributeValue::F32(value) => value.into(),
        AttributeValue::F64(value) => value.into(),
        AttributeValue::String(string) => trace.definitions.string(string).unwrap_or_default().into(),
        AttributeValue::Region(region) => trace.region_name(region).into(),
        AttributeValue::Location(location) => trace.location_name(location).into(),
        AttributeValue::Comm(comm) => trace.comm_name(comm).into(),
        AttributeValue::Attribute(reference) => reference.get().into(),
        AttributeValue::Group(reference) => reference.get().into(),
        AttributeValue::Metric(reference) => reference.get().into(),
        AttributeValue::Parameter(reference) => reference.get().into(),
        AttributeValue::RmaWin(reference) => reference.get().into(),
        AttributeValue::LocationGroup(reference) => reference.get().into(),
        AttributeValue::Other { bits, .. } => Value::Unsigned(bits),
        _ => format!("{value:?}").into(),
    }
}

fn comm_values<'a>(trace: &'a Trace, comm: CommRef) -> List<'a> {
    vec![("comm", trace.comm_name(comm).into()), ("commRef", comm.get().into())]
}

fn collective_values<'a>(trace: &'a Trace, collective: &Collective) -> List<'a> {
    let mut list = vec![("operation", format!("{:?}", collective.op).into())];
    list.append(&mut comm_values(trace, collective.comm));
    if let Some(root) = collective.root {
        list.push(("root", Value::Unsigned(root.into())));
    }
    list.push(("bytesSent", collective.bytes_sent.into()));
    list.push(("bytesReceived", collective.bytes_received.into()));
    list
}

fn message_values<'a>(trace: &'a Trace, message: &Message) -> List<'a> {
    let mut list = vec![("peer", message.peer.into())];
    list.append(&mut comm_values(trace, message.comm));
    list.push(("tag", message.tag.into()));
    list.push(("bytes", message.bytes.into()));
    list
}

fn window_values<'a>(trace: &'a Trace, win: RmaWinRef) -> List<'a> {
    let name = trace.definitions.rma_wins.get(&win).and_then(|window| trace.definitions.string(window.name));
    vec![("window", name.unwrap_or_default().into()), ("windowRef", win.get().into())]
}

fn access_values<'a>(trace: &'a Trace, access: &RmaAccess) -> List<'a> {
    let mut list = window_values(trace, access.win);
    list.push(("remote", access.remote.into()));
    list.push(("bytes", access.bytes.into()));
    list.push(("matching", access.matching.into()));
    list
}

fn metric_values<'a>(trace: &'a Trace, metric: MetricRef, values: &[MetricValue]) -> List<'a> {
    let class = trace.definitions.metric_classes.get(&metric);
    let members = class.map_or(&[][..], |class| &class.members);
    let names = members.iter().map(|member| {
        let member = trace.definitions.metric_members.get(member);
        member.and_then(|member| trace.definitions.string(member.name)).unwrap_or_default().into()
    });
    let values = values.iter().map(|value| match *value {
        MetricValue::U64(value) => Value::Unsigned(value),
        MetricValue::I64(value) => Value::Signed(value),
        MetricValue::F64(value) => Value::Float(value),
    });
    vec![
        ("metrics", Value::Several(names.collect())),
        ("metricRef", metric.get().into()),
        ("values", Value::Several(values.collect())),
    ]
}

fn parameter_of<'a>(trace: &'a Trace, parameter: otf2::ParameterRef, value: Value<'a>) -> List<'a> {
    let definition = trace.definitions.parameters.get(&parameter);
    let name = definition.and_then(|parameter| trace.definitions.string(parameter.name));
    vec![("parameter", name.unwrap_or_default().into()), ("parameterRef", parameter.get().into()), ("value", value)]
}

fn with_request(mut list: List<'_>, request: u64) -> List<'_> {
    list.push(("request", Value::Unsigned(request)));
    list
}

pub(crate) struct ShownEvent<'a> {
    pub(crate) location: LocationRef,
    pub(crate) event: &'a Event,
    pub(crate) after_ns: u64,
    pub(crate) depth: usize,
    pub(crate) duration_ns: Option<u64>,
}

/// Formats an event of an archive as a line for people or as JSON.
pub(crate) struct Printer<'a> {
    trace: &'a Trace,
    columns: Option<Columns>,
}

impl<'a> Printer<'a> {
    /// Column widths are computed from the wanted locations, because the lines are not known yet.
    pub(crate) fn new(trace: &'a Trace, wanted: &[LocationRef], json: bool) -> Self {
        let width = |text: &dyn Fn(LocationRef) -> String, least: &str| {
            wanted.iter().map(|location| text(*location).chars().count()).max().unwrap_or(0).max(least.len())
        };
        let columns = (!json).then(|| Columns {
            location: width(&|location| trace.location_name(location), "location"),
            whose: width(&|location| text(trace, location), "rank"),
        });
        Self { trace, columns }
    }

    pub(crate) fn head(&self, output: &mut Output) -> Result<()> {
        match &self.columns {
            Some(columns) => output.head(&columns.head("location")),
            None => Ok(()),
        }
    }

    /// Prints a line. Returns `false` if no more lines are wanted.
    pub(crate) fn line(&self, shown: &ShownEvent<'_>, output: &mut Output) -> Result<bool> {
        match &self.columns {
            Some(columns) => output.line(columns.line(&self.described(shown))),
            None => {
                let mut json = Json::default();
                json.line(|json| self.object(shown).into_iter().for_each(|(name, value)| json.put(name, value)));
                output.line(json.text())
            }
        }
    }

    fn described(&self, shown: &ShownEvent<'_>) -> Line {
        let kind = &shown.event.kind;
        let mut what = match kind {
            EventKind::Enter(region) => format!("enter {}", self.trace.region_name(*region)),
            EventKind::Leave(region) => format!("leave {}", self.trace.region_name(*region)),
            _ => format!("· {}", name(kind)),
        };
        if !matches!(kind, EventKind::Enter(_) | EventKind::Leave(_)) {
            let mut fields = fields(self.trace, kind);
            fields.retain(|(name, _)| !name.ends_with("Ref"));
            what += &pairs(&fields);
        }
        what += &pairs(&attributes(self.trace, shown.event));
        Line {
            after_ns: shown.after_ns,
            duration: shown.duration_ns.map(units::time),
            location: self.trace.location_name(shown.location),
            rank: text(self.trace, shown.location),
            depth: shown.depth,
            what,
        }
    }

    fn object(&self, shown: &ShownEvent<'_>) -> List<'_> {
        let (event, location) = (shown.event, shown.location);
        let mut list = vec![
            ("time", event.time.into()),
            ("location", self.trace.location_name(location).into()),
            ("locationRef", location.get().into()),
            ("event", name(&event.kind).into()),
        ];
        list.extend(fields(self.trace, &event.kind));
        let attributes = attributes(self.trace, event);
        if !attributes.is_empty() {
            list.push(("attributes", Value::Attributes(attributes)));
        }
        list
    }
}

/// Whether a location is wanted. Threads have no rank.
pub(crate) fn wanted(trace: &Trace, location: LocationRef, filter: &Filter) -> bool {
    match trace.rank_of(location) {
        Some((comm, rank)) => wants_comm(trace, comm, filter) && filter.wants_rank(Some(rank.into())),
        None => filter.wants_comm("", None) && filter.wants_rank(None),
    }
}

pub(crate) fn wants_comm(trace: &Trace, comm: CommRef, filter: &Filter) -> bool {
    filter.wants_comm(&trace.comm_name(comm), trace.comm_id(comm))
}

/// The rank, and the communicator if there are several; empty if the location has no rank.
pub(crate) fn text(trace: &Trace, location: LocationRef) -> String {
    let Some((comm, rank)) = trace.rank_of(location) else { return String::new() };
    let ranks = trace.members(comm).len();
    match trace.definitions.comms.len() {
        0 | 1 => format!("{rank}/{ranks}"),
        _ => format!("{} {rank}", trace.comm_name(comm)),
    }
}
