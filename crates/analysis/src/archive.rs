//! An archive with its definitions resolved.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass, parse_canonical_name, path_of_ranges};
use nccl_events::collective::Function;
use nccl_events::schema::Statements;
use nccl_events::schema::attribute::AttributeId;
use nccl_events::sort::Gather;
use otf2::{Archive, AttributeRef, AttributeValue, CommRef, Definitions, LocationRef, RegionRef, StringRef};

use crate::communicators::Communicators;
use crate::fields::{Attributes, Fields};
use crate::locations::Locations;

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

    fn of(region: &RegionInfo<'_>) -> Option<Self> {
        let kind = region.kind?;
        Some(match region.class {
            RegionClass::Api | RegionClass::Enqueue | RegionClass::Launch => Self::Call(kind),
            RegionClass::Operation => Self::Operation(kind),
            _ => Self::Work(kind),
        })
    }
}

impl<'a> RegionInfo<'a> {
    fn of(canonical_name: &'a str) -> Option<Self> {
        let (class, kind) = parse_canonical_name(canonical_name)?;
        Some(Self { class, kind, name: canonical_name.splitn(if kind.is_some() { 4 } else { 3 }, "::").last()? })
    }

    fn phase(&self) -> Option<usize> {
        const NAMES: [&str; 6] =
            ["SendGPUWait", "SendPeerWait", "SendWait", "RecvWait", "RecvFlushWait", "RecvGPUWait"];
        NAMES.iter().position(|name| self.kind == Some(Kind::ProxyStep) && *name == self.name)
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    role: Role,
    function: Option<Function>,
    phase: Option<usize>,
    is_net_send: bool,
}

#[derive(Debug)]
pub struct Trace {
    pub anchor: PathBuf,
    pub archive: Archive,
    pub definitions: Definitions,
    pub statements: Statements,
    communicators: Communicators,
    locations: Locations,
    regions: BTreeMap<RegionRef, Known>,
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
        let communicators = Communicators::of(&definitions);
        let regions = definitions.regions.iter().filter_map(|(reference, region)| {
            let info = RegionInfo::of(definitions.string(region.canonical_name)?)?;
            let role = Role::of(&info)?;
            let is_net_send = info.kind == Some(Kind::ProxyOp) && info.name == "netSend";
            let function = Function::of_region(info.name);
            Some((*reference, Known { role, function, phase: info.phase(), is_net_send }))
        });
        Ok(Self {
            anchor,
            regions: regions.gather(),
            attributes: Attributes::of(&definitions),
            locations: Locations::of(&definitions, &communicators),
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

    /// The additional locations of a rank, which hold operations that overlap those on its main location.
    pub fn siblings(&self, location: LocationRef) -> &[LocationRef] {
        self.locations.siblings.get(&location).map_or(&[], Vec::as_slice)
    }

    /// What a region shows; `None` if it does not belong to NCCL.
    pub fn role(&self, region: RegionRef) -> Option<Role> {
        self.regions.get(&region).map(|known| known.role)
    }

    /// The function a region shows, or the region's own name if it is not NCCL's.
    pub fn function_name(&self, region: RegionRef) -> String {
        self.region(region).map_or_else(|| self.region_name(region), |it| it.name.to_owned())
    }

    pub fn function(&self, region: RegionRef) -> Option<Function> {
        self.regions.get(&region)?.function
    }

    /// The phase of a transfer step that a region shows: 0 to 2 for sends, 3 to 5 for receives, in time order.
    pub fn phase(&self, region: RegionRef) -> Option<usize> {
        self.regions.get(&region)?.phase
    }

    pub(crate) fn is_net_send(&self, region: RegionRef) -> bool {
        self.regions.get(&region).is_some_and(|known| known.is_net_send)
    }

    /// Class, kind and name of a region; `None` for kernels and regions of other writers.
    pub fn region(&self, region: RegionRef) -> Option<RegionInfo<'_>> {
        RegionInfo::of(self.canonical_name(region)?)
    }

    /// The region's name in the program; for kernels, the mangled name.
    pub fn canonical_name(&self, region: RegionRef) -> Option<&str> {
        self.definitions.string(self.definitions.regions.get(&region)?.canonical_name)
    }

    /// The names of the program's ranges among the regions around a range, and its own, as `nvtx.ranges` has them.
    pub fn path(&self, around: impl Iterator<Item = RegionRef>, own: RegionRef) -> String {
        let is_range = |region: &RegionRef| self.region(*region).is_some_and(|it| it.class == RegionClass::User);
        path_of_ranges(around.filter(is_range).chain([own]).map(|region| self.region_name(region)))
    }

    pub fn is_copy(&self, region: RegionRef) -> bool {
        self.region(region).is_some_and(|region| region.class == RegionClass::Copy)
    }
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
