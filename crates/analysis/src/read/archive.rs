//! An archive with its definitions resolved: its clock, communicators, the process, host, rank and kind of each
//! location, and the attributes of NCCL's events that readers need. Also runs functions on all cores.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass, kind_shown, parse_canonical_name, path_of_ranges, region};
use nccl_events::collective::Function;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::attribute::AttributeId;
use nccl_events::schema::carriers::{Carrier, Value};
use nccl_events::schema::definition::DefinitionProperty;
use nccl_events::schema::{Statements, definition};
use nccl_events::sort::{Gather, sort_by_key};
use otf2::{
    Archive, AttributeRef, AttributeValue, CommRef, Definitions, Event, EventKind, GroupRef, GroupType,
    LocationGroupRef, LocationGroupType, LocationRef, Paradigm, RegionRef, StringRef, SystemTreeDomain,
    SystemTreeNodeRef,
};
use parking_lot::Mutex;
use rayon::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A call, launch or enqueueing on a thread.
    Call(Kind),
    /// An operation as it ran, on the location of its communicator.
    Operation(Kind),
    /// The work of an operation: transfers, channels, activity of proxy threads.
    Work(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInfo<'a> {
    pub class: RegionClass,
    pub kind: Option<Kind>,
    pub name: &'a str,
}

impl Role {
    pub const fn kind(self) -> Kind {
        match self {
            Self::Call(kind) | Self::Operation(kind) | Self::Work(kind) => kind,
        }
    }

    fn from_region(region: &RegionInfo<'_>) -> Option<Self> {
        let kind = region.kind?;
        Some(match region.class {
            RegionClass::Api | RegionClass::Enqueue | RegionClass::Launch => Self::Call(kind),
            RegionClass::Operation => Self::Operation(kind),
            _ => Self::Work(kind),
        })
    }
}

impl<'a> RegionInfo<'a> {
    fn parse(canonical_name: &'a str) -> Option<Self> {
        let (class, name) = parse_canonical_name(canonical_name)?;
        Some(Self { class, kind: kind_shown(class, name), name })
    }

    /// Whether the region shows sending, as opposed to receiving, on the network; `None` if neither.
    fn is_send(&self) -> Option<bool> {
        match (self.kind?, self.name) {
            (Kind::ProxyOp | Kind::ProxyStep, region::NET_SEND | region::SEND_STEP) => Some(true),
            (Kind::ProxyOp | Kind::ProxyStep, _) => Some(false),
            (Kind::NetPlugin, name) => Some(name.ends_with("Send") || name.ends_with(" send")),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct KnownRegion {
    class: RegionClass,
    role: Option<Role>,
    function: Option<Function>,
    is_send: Option<bool>,
}

#[derive(Debug)]
pub struct Trace {
    pub anchor: PathBuf,
    pub archive: Archive,
    pub definitions: Definitions,
    pub statements: Statements,
    communicators: Communicators,
    locations: Locations,
    regions: BTreeMap<RegionRef, KnownRegion>,
    /// What the records of each parameter stand for, by its number.
    recorded: Vec<Option<RegionRef>>,
    pub(crate) attributes: Attributes,
}

impl Trace {
    /// Reads and verifies the definitions of an archive.
    pub fn read(anchor: PathBuf, archive: Archive) -> otf2::Result<Self> {
        let trace = Self::read_unchecked(anchor, archive)?;
        trace.archive.check_definitions(&trace.definitions)?;
        Ok(trace)
    }

    /// Reads the definitions without verifying them, to report what is wrong with them.
    pub fn read_unchecked(anchor: PathBuf, archive: Archive) -> otf2::Result<Self> {
        let definitions = archive.definitions()?;
        let communicators = Communicators::from_definitions(&definitions);
        let regions = definitions.regions.iter().filter_map(|(reference, region)| {
            let info = RegionInfo::parse(definitions.string(region.canonical_name)?)?;
            let (class, role) = (info.class, Role::from_region(&info));
            let function = Function::from_region(info.name);
            Some((*reference, KnownRegion { class, role, function, is_send: info.is_send() }))
        });
        let regions = regions.gather();
        Ok(Self {
            anchor,
            recorded: recorded_regions(&definitions, &regions),
            regions,
            attributes: Attributes::from_definitions(&definitions),
            locations: Locations::new(&definitions, &communicators),
            communicators,
            statements: Statements::read(archive.properties()),
            archive,
            definitions,
        })
    }

    pub fn events(&self) -> u64 {
        self.definitions.locations.values().map(|location| location.number_of_events).sum()
    }

    pub fn events_of(&self, reference: LocationRef) -> u64 {
        self.definitions.locations.get(&reference).map_or(0, |location| location.number_of_events)
    }

    pub fn has_events(&self, reference: LocationRef) -> bool {
        self.events_of(reference) > 0
    }

    pub fn location_name(&self, reference: LocationRef) -> String {
        self.name(self.definitions.locations.get(&reference).map(|location| location.name), "location", reference.get())
    }

    pub fn region_name(&self, reference: RegionRef) -> String {
        self.name(self.definitions.regions.get(&reference).map(|region| region.name), "region", reference.get())
    }

    pub fn comm_name(&self, reference: CommRef) -> String {
        let inter = || self.definitions.inter_comms.get(&reference).map(|comm| comm.name);
        let name = self.definitions.comms.get(&reference).map(|comm| comm.name).or_else(inter);
        self.name(name, "communicator", reference.get())
    }

    /// NCCL's id of a communicator; `None` if the writer does not state it.
    pub fn comm_id(&self, comm: CommRef) -> Option<u64> {
        let id = self.members(comm).iter().find_map(|member| self.location_property(*member, definition::CommId))?;
        u64::from_str_radix(id.strip_prefix("0x")?, 16).ok()
    }

    /// NCCL's id of a communicator, as its log has it; empty if the writer does not state it.
    pub fn comm_id_text(&self, comm: CommRef) -> String {
        self.comm_id(comm).map_or_else(String::new, |id| format!("{id:#x}"))
    }

    /// The string `name` refers to, or `what` followed by the id.
    fn name(&self, name: Option<StringRef>, what: &str, id: impl Into<u64>) -> String {
        let name = name.and_then(|name| self.definitions.string(name));
        name.map_or_else(|| format!("{what} {}", id.into()), str::to_owned)
    }

    pub fn text(&self, value: AttributeValue) -> Option<&str> {
        match value {
            AttributeValue::String(string) => self.definitions.string(string),
            _ => None,
        }
    }

    /// Reads the attributes of an [`otf2::Event`], or of the ENTER and LEAVE of a [`crate::Slice`].
    pub fn fields_of(&self, attributes: &[(AttributeRef, AttributeValue)]) -> Fields<'_> {
        self.read_fields(attributes)
    }

    pub fn read_fields<'a, F: nccl_events::schema::attribute::Fields<'a>>(
        &'a self,
        attributes: &[(AttributeRef, AttributeValue)],
    ) -> F {
        let mut fields = F::default();
        self.attributes.add(&self.definitions, attributes, &mut fields);
        fields
    }

    pub fn attribute(&self, attribute: AttributeRef) -> Option<AttributeId> {
        self.attributes.get(attribute)
    }

    /// The locations of a communicator in the order of its ranks.
    pub fn members(&self, comm: CommRef) -> &[LocationRef] {
        self.communicators.members.get(&comm).map_or(&[], Vec::as_slice)
    }

    /// The members of both groups of an intercommunicator, which [`Self::members`] does not have.
    pub fn groups(&self, comm: CommRef) -> Option<&[Vec<LocationRef>; 2]> {
        self.communicators.inter.get(&comm)
    }

    /// The rank of a location in a communicator; `None` if it is no member.
    pub fn rank(&self, location: LocationRef, comm: CommRef) -> Option<u32> {
        self.communicators.ranks.get(&(location, comm)).copied()
    }

    /// The communicator and rank that a location belongs to; `None` for threads and streams.
    pub fn rank_of(&self, location: LocationRef) -> Option<(CommRef, u32)> {
        self.locations.ranks.get(&location).copied()
    }

    /// What a location represents; `None` if the writer does not state it.
    pub fn location_kind(&self, location: LocationRef) -> Option<LocationKind> {
        self.locations.kinds.get(&location).copied()
    }

    /// Whether the writer states what its locations represent; true if there are no locations.
    pub fn has_location_kinds(&self) -> bool {
        self.definitions.locations.is_empty() || !self.locations.kinds.is_empty()
    }

    /// When the trace begins, in ns since 1970; `None` if the writer does not state it.
    pub fn start_ns(&self) -> Option<u64> {
        Some(self.definitions.clock.as_ref()?.realtime_timestamp).filter(|ns| *ns != u64::MAX)
    }

    /// The class of a region; `None` for kernels and regions of other writers.
    pub fn class(&self, region: RegionRef) -> Option<RegionClass> {
        self.regions.get(&region).map(|known| known.class)
    }

    /// What a region shows; `None` if it shows no event of NCCL's.
    pub fn role(&self, region: RegionRef) -> Option<Role> {
        self.regions.get(&region)?.role
    }

    /// The function a region shows, or the region's own name if it is not NCCL's.
    pub fn function_name(&self, region: RegionRef) -> String {
        self.region(region).map_or_else(|| self.region_name(region), |region| region.name.to_owned())
    }

    pub fn function(&self, region: RegionRef) -> Option<Function> {
        self.regions.get(&region)?.function
    }

    /// Whether a region shows sending, as opposed to receiving, on the network; `None` if it shows neither.
    pub fn is_send(&self, region: RegionRef) -> Option<bool> {
        self.regions.get(&region)?.is_send
    }

    /// Class, kind and name of a region; `None` for kernels and regions of other writers.
    pub fn region(&self, region: RegionRef) -> Option<RegionInfo<'_>> {
        RegionInfo::parse(self.canonical_name(region)?)
    }

    /// The region's name in the program; for kernels, the mangled name.
    pub fn canonical_name(&self, region: RegionRef) -> Option<&str> {
        self.definitions.string(self.definitions.regions.get(&region)?.canonical_name)
    }

    /// The names of the program's ranges among the regions around a range, and its own, as `nvtx.ranges` has them.
    pub fn path(&self, around: impl Iterator<Item = RegionRef>, own: RegionRef) -> String {
        let is_range =
            |region: &RegionRef| self.region(*region).is_some_and(|region| region.class == RegionClass::User);
        path_of_ranges(around.filter(is_range).chain([own]).map(|region| self.region_name(region)))
    }

    pub fn is_copy(&self, region: RegionRef) -> bool {
        self.region(region).is_some_and(|region| region.class == RegionClass::Copy)
    }
}

/// What a record stands for.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    pub region: RegionRef,
    pub duration_ns: u64,
}

impl Trace {
    /// What an event stands for, if it is a record of what ends with it. Without a duration it is an instant.
    pub fn recorded(&self, event: &Event) -> Option<Recorded> {
        let EventKind::ParameterUnsignedInt { parameter, .. } = event.kind else {
            return None;
        };
        let region = self.recorded.get(index(parameter.get())).copied()??;
        let duration_ns = self.attributes.duration_ns(&event.attributes).unwrap_or(0);
        Some(Recorded { region, duration_ns })
    }
}

/// The operation or work that each parameter has the name of. OTF2 requires ids without gaps; a parameter that breaks
/// the rule is not recognised.
fn recorded_regions(definitions: &Definitions, regions: &BTreeMap<RegionRef, KnownRegion>) -> Vec<Option<RegionRef>> {
    let is_recorded = |known: &KnownRegion| matches!(known.role, Some(Role::Operation(_) | Role::Work(_)));
    let named: BTreeMap<StringRef, RegionRef> = regions
        .iter()
        .filter(|(_, known)| is_recorded(known))
        .filter_map(|(region, _)| Some((definitions.regions.get(region)?.name, *region)))
        .gather();
    let parameters = definitions.parameters.iter().zip(0..);
    let dense = parameters.take_while(|((reference, _), number)| reference.get() == *number);
    dense.map(|((_, parameter), _)| named.get(&parameter.name).copied()).collect()
}

/// Whether this project's writer made the archive, recognised by its statements.
pub fn is_nccl(archive: &Archive) -> bool {
    Statements::are_in(archive.properties())
}

/// Whether the archive is Score-P's with one of this project's merged into it.
pub fn is_merged(archive: &Archive) -> bool {
    let statements = Statements::read(archive.properties());
    !statements.merged.is_empty() || !statements.merged_map.is_empty()
}

/// The property of a host's node that identifies the boot.
const BOOT_ID: &str = "boot id";

/// One boot of a machine: hosts with the same boot, such as containers, share a clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boot<'a> {
    Id(&'a str),
    /// The host itself, if the boot id is unknown.
    Host(SystemTreeNodeRef),
}

impl Trace {
    pub fn processes(&self) -> impl Iterator<Item = LocationGroupRef> {
        let groups = self.definitions.location_groups.iter();
        groups.filter(|(_, group)| group.group_type == LocationGroupType::Process).map(|(reference, _)| *reference)
    }

    /// The group of a location; an undefined reference if it has none.
    pub fn group(&self, location: LocationRef) -> LocationGroupRef {
        self.definitions.locations.get(&location).map(|location| location.group).unwrap_or_default()
    }

    /// The process of a group of locations: the group itself or, for a GPU's group, its creator.
    pub fn process(&self, group: LocationGroupRef) -> LocationGroupRef {
        let creator = self.definitions.location_groups.get(&group).map(|group| group.creator);
        creator.filter(|creator| creator.is_defined()).unwrap_or(group)
    }

    pub fn group_name(&self, group: LocationGroupRef) -> &str {
        let name = self.definitions.location_groups.get(&group).and_then(|group| self.definitions.string(group.name));
        name.unwrap_or_default()
    }

    /// The host of a group of locations. A GPU's node is below its host's.
    pub fn host(&self, group: LocationGroupRef) -> Option<SystemTreeNodeRef> {
        let nodes = &self.definitions.system_tree_nodes;
        let mut host = self.definitions.location_groups.get(&group)?.system_tree_parent;
        // The nodes of a damaged archive may form a cycle.
        for _ in 0..nodes.len() {
            match nodes.get(&host) {
                Some(node) if node.domains.contains(&SystemTreeDomain::AcceleratorDevice) => {
                    host = node.parent;
                }
                _ => break,
            }
        }
        Some(host)
    }

    pub fn node_name(&self, node: SystemTreeNodeRef) -> Option<&str> {
        self.definitions.string(self.definitions.system_tree_nodes.get(&node)?.name)
    }

    pub fn host_name(&self, group: LocationGroupRef) -> Option<&str> {
        self.node_name(self.host(group)?)
    }

    pub fn boot(&self, group: LocationGroupRef) -> Option<Boot<'_>> {
        let host = self.host(group)?;
        let properties = self.definitions.system_tree_nodes.get(&host).map_or(&[][..], |node| &node.properties);
        let id = property(&self.definitions, properties, BOOT_ID);
        Some(id.and_then(|id| self.text(id)).map_or(Boot::Host(host), Boot::Id))
    }
}

impl Trace {
    pub fn location_property<P: DefinitionProperty>(&self, location: LocationRef, property: P) -> PropertyValue<'_, P> {
        stated(&self.definitions, &self.definitions.locations.get(&location)?.properties, property)
    }

    pub fn group_property<P: DefinitionProperty>(&self, group: LocationGroupRef, property: P) -> PropertyValue<'_, P> {
        stated(&self.definitions, &self.definitions.location_groups.get(&group)?.properties, property)
    }

    /// The locations of these kinds that have events, ascending.
    pub fn locations_of(&self, kinds: &[LocationKind]) -> Vec<LocationRef> {
        let is_one = |location: &LocationRef| self.location_kind(*location).is_some_and(|kind| kinds.contains(&kind));
        self.definitions
            .locations
            .keys()
            .copied()
            .filter(|location| is_one(location) && self.has_events(*location))
            .collect()
    }

    /// Whether a location is a thread that calls NCCL, or on which NCCL calls the plugin.
    pub fn is_thread(&self, location: LocationRef) -> bool {
        matches!(self.location_kind(location), Some(LocationKind::ApiThread | LocationKind::CallbackThread))
    }

    /// The communicator location for the rank that a location belongs to.
    pub fn member_of(&self, location: LocationRef) -> Option<LocationRef> {
        let (comm, rank) = self.rank_of(location)?;
        self.members(comm).get(index(rank)).copied()
    }
}

nccl_events::fields! {
    /// The attributes that statistics, checks and exports need.
    pub struct Fields {
        event: Event,
        parent: Parent,
        group: Group,
        external_correlation: ExternalCorrelation,
        timing: Timing,
        bytes: Bytes,
        count: Count,
        datatype: Datatype,
        algorithm: Algorithm,
        protocol: Protocol,
        queued_ns: QueuedNs,
        root: Root,
        peer: Peer,
        channel: Channel,
        sequence: Sequence,
        replay: Replay,
        launch: Launch,
        start_moved_ns: StartMoved,
        is_suspicious: Suspicious,
        is_unfinished: Unfinished,
        algorithm_bandwidth: AlgorithmBandwidth,
        bus_bandwidth: BusBandwidth,
        comm_id: CommId,
        comm_name: CommName,
        rank: Rank,
        ranges: Ranges,
        range_number: RangeNumber,
    }
}

impl Fields<'_> {
    /// The id of a call's group, which is the parent of the launches in it.
    pub fn group_of_call(&self) -> Option<u64> {
        self.group.or(self.parent)
    }
}

/// The attributes of an archive. In merged archives, this project and Score-P both use some names.
#[derive(Debug)]
pub(crate) struct Attributes {
    known: Vec<Option<AttributeId>>,
    /// `nccl.cut_ns`, if the archive has it.
    cut: Option<AttributeRef>,
    /// `nccl.duration_ns`, if the archive has it.
    duration: Option<AttributeRef>,
}

impl Attributes {
    pub(crate) fn from_definitions(definitions: &Definitions) -> Self {
        let mut known = Vec::new();
        for (reference, attribute) in &definitions.attributes {
            // OTF2 requires ids without gaps; an attribute that breaks the rule is not recognised.
            if usize::try_from(reference.get()) == Ok(known.len()) {
                known.push(definitions.string(attribute.name).and_then(AttributeId::named));
            }
        }
        let find = |id| {
            let place = known.iter().position(|known| *known == Some(id))?;
            Some(AttributeRef::new(index_u32(place)))
        };
        let (cut, duration) = (find(AttributeId::Cut), find(AttributeId::Duration));
        Self { known, cut, duration }
    }

    /// How much later than what it shows a region begins, because it overlaps another.
    pub(crate) fn cut_ns(&self, attributes: &[(AttributeRef, AttributeValue)]) -> Option<u64> {
        number_of(self.cut?, attributes)
    }

    /// How long before a record began what it stands for.
    fn duration_ns(&self, attributes: &[(AttributeRef, AttributeValue)]) -> Option<u64> {
        number_of(self.duration?, attributes)
    }

    pub(crate) fn get(&self, attribute: AttributeRef) -> Option<AttributeId> {
        self.known.get(usize::try_from(attribute.get()).ok()?).copied()?
    }

    pub(crate) fn add<'a>(
        &self,
        definitions: &'a Definitions,
        attributes: &[(AttributeRef, AttributeValue)],
        fields: &mut impl nccl_events::schema::attribute::Fields<'a>,
    ) {
        for (attribute, value) in attributes {
            if let (Some(attribute), Some(value)) = (self.get(*attribute), value_of(*value)) {
                fields.take(attribute, value, |text| definitions.string(text));
            }
        }
    }
}

fn number_of(wanted: AttributeRef, attributes: &[(AttributeRef, AttributeValue)]) -> Option<u64> {
    attributes.iter().find_map(|(attribute, value)| match value {
        AttributeValue::U64(number) if *attribute == wanted => Some(*number),
        _ => None,
    })
}

pub(crate) fn value_of(value: AttributeValue) -> Option<Value<StringRef>> {
    Some(match value {
        AttributeValue::U8(number) => Value::U8(number),
        AttributeValue::U16(number) => Value::U32(number.into()),
        AttributeValue::U32(number) => Value::U32(number),
        AttributeValue::U64(number) => Value::U64(number),
        AttributeValue::I32(number) => Value::I32(number),
        AttributeValue::I64(number) => Value::I64(number),
        AttributeValue::F64(number) => Value::F64(number),
        AttributeValue::String(text) => Value::String(text),
        AttributeValue::Location(location) => Value::Location(location.get()),
        AttributeValue::Comm(comm) => Value::Comm(comm.get()),
        _ => return None,
    })
}

/// The kinds and ranks of locations.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    pub(crate) kinds: BTreeMap<LocationRef, LocationKind>,
    pub(crate) ranks: BTreeMap<LocationRef, (CommRef, u32)>,
}

impl Locations {
    pub(crate) fn new(definitions: &Definitions, communicators: &Communicators) -> Self {
        let mut found = Self::default();
        // Score-P has a process in several communicators, and in its teams of threads: MPI's largest one has the job's
        // ranks.
        let size_of = |comm: &CommRef| {
            let group = definitions.comms.get(comm).and_then(|comm| definitions.groups.get(&comm.group));
            group.map(|group| (group.paradigm == Paradigm::Mpi, group.members.len()))
        };
        let mut ranks: Vec<_> = communicators.ranks.iter().collect();
        sort_by_key(&mut ranks, |((_, comm), _)| size_of(comm));
        found.ranks.extend(ranks.into_iter().map(|((location, comm), rank)| (*location, (*comm, *rank))));
        for (location, definition) in &definitions.locations {
            let kind = stated(definitions, &definition.properties, definition::LocationKind);
            found.kinds.extend(kind.map(|kind| (*location, kind)));
        }
        found
    }
}

pub fn property(
    definitions: &Definitions,
    properties: &[(StringRef, AttributeValue)],
    name: &str,
) -> Option<AttributeValue> {
    let mut properties = properties.iter();
    properties.find(|(key, _)| definitions.string(*key) == Some(name)).map(|(_, value)| *value)
}

pub(crate) type PropertyValue<'a, P> = Option<<<P as DefinitionProperty>::Carrier as Carrier>::Parsed<&'a str>>;

/// The value of a definition's property; `None` if it is missing or has an unexpected type.
pub fn stated<'a, P: DefinitionProperty>(
    definitions: &'a Definitions,
    properties: &[(StringRef, AttributeValue)],
    _: P,
) -> PropertyValue<'a, P> {
    let value = value_of(property(definitions, properties, P::NAME)?)?;
    P::Carrier::take(value, |text| definitions.string(text))
}

/// The archive's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: u64,
    ticks_per_second: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { begin: 0, ticks_per_second: NS }
    }
}

const NS: u64 = 1_000_000_000;

impl Clock {
    pub fn from_trace(trace: &Trace) -> Self {
        let clock = trace.definitions.clock.as_ref();
        clock.map_or_else(Self::default, |clock| Self {
            begin: clock.global_offset,
            ticks_per_second: clock.timer_resolution.max(1),
        })
    }

    /// Converts a time span.
    pub fn ticks(self, ns: u64) -> u64 {
        if self.ticks_per_second == NS {
            return ns;
        }
        let ticks = u128::from(ns) * u128::from(self.ticks_per_second) / u128::from(NS);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The length of the trace; 0 if the archive does not state it.
    pub fn length_ns(self, trace: &Trace) -> u64 {
        let clock = trace.definitions.clock.as_ref();
        clock.map_or(0, |clock| self.ns(clock.global_offset.saturating_add(clock.trace_length)))
    }

    pub fn ns(self, time: u64) -> u64 {
        let ticks = time.saturating_sub(self.begin);
        if self.ticks_per_second == NS {
            return ticks;
        }
        let ns = u128::from(ticks) * u128::from(NS) / u128::from(self.ticks_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// Which locations belong to which communicator.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    pub(crate) members: BTreeMap<CommRef, Vec<LocationRef>>,
    pub(crate) ranks: BTreeMap<(LocationRef, CommRef), u32>,
    /// The two groups of intercommunicators.
    pub(crate) inter: BTreeMap<CommRef, [Vec<LocationRef>; 2]>,
}

impl Communicators {
    /// A communicator's members are indices into its paradigm's list of communicating locations.
    pub(crate) fn from_definitions(definitions: &Definitions) -> Self {
        let mut lists: BTreeMap<Paradigm, &[u64]> = BTreeMap::new();
        for group in definitions.groups.values() {
            if group.group_type == GroupType::CommLocations {
                lists.entry(group.paradigm).or_insert(&group.members);
            }
        }
        let members = |group: &GroupRef| -> Vec<LocationRef> {
            let group = definitions.groups.get(group);
            let Some((group, list)) = group.and_then(|group| Some((group, lists.get(&group.paradigm)?))) else {
                return Vec::new();
            };
            let ids = group.members.iter().filter_map(|place| list.get(usize::try_from(*place).ok()?));
            ids.map(|id| LocationRef::new(*id)).collect()
        };
        let mut found = Self::default();
        for (comm, definition) in &definitions.inter_comms {
            found.inter.insert(*comm, [definition.group_a, definition.group_b].map(|group| members(&group)));
        }
        for (comm, definition) in &definitions.comms {
            let members = members(&definition.group);
            for (rank, location) in (0..).zip(&members) {
                found.ranks.entry((*location, *comm)).or_insert(rank);
            }
            found.members.insert(*comm, members);
        }
        found
    }
}

/// The results of `make` for items that each take long, in the order of the items.
pub fn in_parallel<I: Send, T: Send>(items: impl IntoIterator<Item = I>, make: impl Fn(I) -> T + Sync) -> Vec<T> {
    let slots: Vec<_> = items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    // No thread waits for a lock: each slot is locked once.
    run_on_all_cores(slots.len(), &|at| {
        let (item, made) = &mut *slots[at].lock();
        *made = item.take().map(&make);
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().1).collect()
}

/// Like [`in_parallel`], but begins no further items after an error, and returns an error.
pub fn try_in_parallel<I: Send, T: Send, E: Send>(
    items: impl IntoIterator<Item = I>,
    make: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let has_failed = AtomicBool::new(false);
    let made = in_parallel(items, |item| {
        (!has_failed.load(Ordering::Relaxed))
            .then(|| make(item).inspect_err(|_| has_failed.store(true, Ordering::Relaxed)))
    });
    made.into_iter().flatten().collect()
}

/// Runs `work` on all cores. A parallel iterator of rayon adds 10 to 20 KB of code; all callers share this one.
#[inline(never)]
fn run_on_all_cores(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(work);
}
