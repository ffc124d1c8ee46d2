//! Pairs the ENTERs and LEAVEs of a location, and reads the records that stand for what ends with them: [`Instances`]
//! with the attributes that readers need, [`Slices`] with all.
//! [`Sequences`] checks whether ranks do the same things in the same order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::read::archive::{Clock, Fields, Recorded, Role, Trace};
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::attribute::AttributeId;
use nccl_events::{Kind, step_slot};
use otf2::{AttributeRef, AttributeValue, CommRef, Event, EventKind, LocationRef, RegionRef, StringRef};

#[derive(Clone, Copy, Debug)]
pub struct InstanceOf<F> {
    pub region: RegionRef,
    pub role: Option<Role>,
    pub start: u64,
    pub end: u64,
    pub fields: F,
}

pub type Instance<'a> = InstanceOf<Fields<'a>>;

#[derive(Clone, Copy, Debug)]
pub enum StepOf<F> {
    Entered(InstanceOf<F>),
    Left(InstanceOf<F>),
    /// A record of what ends with it: no ENTER preceded it, and it may overlap others.
    Recorded(InstanceOf<F>),
    Inside,
}

pub type Step<'a> = StepOf<Fields<'a>>;

/// The region instances of locations that are read one after another.
#[derive(Debug)]
pub struct Instances<'a, F = Fields<'a>> {
    trace: &'a Trace,
    open: Vec<InstanceOf<F>>,
}

impl<'a, F: nccl_events::schema::attribute::Fields<'a> + Copy> Instances<'a, F> {
    pub const fn new(trace: &'a Trace) -> Self {
        Self { trace, open: Vec::new() }
    }

    pub fn next_location(&mut self) {
        self.open.clear();
    }

    /// The regions entered but not left, innermost last.
    pub fn open(&self) -> &[InstanceOf<F>] {
        &self.open
    }

    /// Processes an event. A LEAVE without a matching ENTER is ignored.
    pub fn step(&mut self, event: &Event) -> StepOf<F> {
        match event.kind {
            EventKind::Enter(region) => {
                let (role, fields) = (self.trace.role(region), self.trace.read_fields(&event.attributes));
                let cut = self.trace.attributes.cut_ns(&event.attributes);
                let cut = cut.map_or(0, |ns| Clock::from_trace(self.trace).ticks(ns));
                let entered =
                    InstanceOf { region, role, start: event.time.saturating_sub(cut), end: event.time, fields };
                self.open.push(entered);
                StepOf::Entered(entered)
            }
            EventKind::Leave(_) => {
                let Some(mut left) = self.open.pop() else {
                    return StepOf::Inside;
                };
                self.trace.attributes.add(&self.trace.definitions, &event.attributes, &mut left.fields);
                left.end = event.time;
                StepOf::Left(left)
            }
            EventKind::ParameterUnsignedInt { .. } => match self.trace.recorded(event) {
                Some(Recorded { region, duration_ns }) => StepOf::Recorded(InstanceOf {
                    region,
                    role: self.trace.role(region),
                    start: event.time.saturating_sub(Clock::from_trace(self.trace).ticks(duration_ns)),
                    end: event.time,
                    fields: self.trace.read_fields(&event.attributes),
                }),
                None => StepOf::Inside,
            },
            _ => StepOf::Inside,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub location: LocationRef,
    pub region: RegionRef,
    pub role: Option<Role>,
    pub depth: u32,
    /// In ns from the start of the trace.
    pub start_ns: u64,
    /// How much earlier than at `start_ns` began what is shown: until then it overlaps another region.
    pub cut_ns: u64,
    pub stop_ns: u64,
    /// The attributes of the ENTER, followed by those of the LEAVE; or those of the record.
    pub attributes: Vec<(AttributeRef, AttributeValue)>,
    /// The row that a record belongs to; `None` for a region that was entered and left.
    pub lane: Option<Lane>,
}

impl Slice {
    /// When what is shown began, in ns from the start of the trace.
    pub const fn began_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.cut_ns)
    }
}

/// A row for what the archive has as records on a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    pub location: LocationRef,
    pub shows: LaneKind,
    /// 0, or the number of a further row for what overlaps what is there.
    pub row: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the kinds are NCCL's")]
pub enum LaneKind {
    /// Operations of one kernel.
    Operations,
    Channel(u32),
    Phases(u32),
    Connection(Connection),
    /// A slot of a connection, which has one step in progress at a time.
    Slot(Connection, u32),
    /// The network plugin's work for a slot.
    Plugin(Connection, u32),
}

/// A network connection of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct Connection {
    pub rank: ConnectionRank,
    pub channel: u32,
    pub is_send: bool,
    pub peer: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionRank {
    Member(CommRef, u32),
    /// A rank of another process (PXN), by what the archive says of it.
    Foreign(StringRef),
    /// The beginning of its communicator was lost.
    Unknown,
}

impl LaneKind {
    /// The lane above: of a slot its connection's, of a plugin its slot's.
    pub const fn above(self) -> Option<Self> {
        match self {
            Self::Operations | Self::Channel(_) | Self::Phases(_) | Self::Connection(_) => None,
            Self::Slot(connection, _) => Some(Self::Connection(connection)),
            Self::Plugin(connection, slot) => Some(Self::Slot(connection, slot)),
        }
    }

    pub const fn connection(self) -> Option<Connection> {
        match self {
            Self::Operations | Self::Channel(_) | Self::Phases(_) => None,
            Self::Connection(connection) | Self::Slot(connection, _) | Self::Plugin(connection, _) => Some(connection),
        }
    }

    fn name(self, trace: &Trace) -> String {
        match self {
            Self::Operations => "operations".to_owned(),
            Self::Channel(channel) => format!("channel {channel:02}"),
            Self::Phases(channel) => format!("channel {channel:02} phases"),
            Self::Connection(Connection { rank, channel, is_send, peer }) => {
                let rank = match rank {
                    ConnectionRank::Member(comm, rank) => format!("{} r{rank}", trace.comm_name(comm)),
                    ConnectionRank::Foreign(origin) => trace.definitions.string(origin).unwrap_or("?").to_owned(),
                    ConnectionRank::Unknown => "unknown rank".to_owned(),
                };
                let direction = if is_send { "send→" } else { "recv←" };
                format!("net {rank} ch{channel:02} {direction}{peer}")
            }
            Self::Slot(connection, slot) => format!("{} s{slot}", Self::Connection(connection).name(trace)),
            Self::Plugin(connection, slot) => format!("{} plugin", Self::Slot(connection, slot).name(trace)),
        }
    }
}

impl Lane {
    pub fn name(self, trace: &Trace) -> String {
        let name = match self.shows {
            LaneKind::Operations | LaneKind::Channel(_) | LaneKind::Phases(_) => {
                format!("{} {}", trace.location_name(self.location), self.shows.name(trace))
            }
            _ => self.shows.name(trace),
        };
        match self.row {
            0 => name,
            row => format!("{name} #{}", row + 1),
        }
    }

    /// The communicator location for the rank that the lane belongs to; `None` if it is unknown here.
    pub fn member(self, trace: &Trace) -> Option<LocationRef> {
        match self.shows.connection() {
            Some(connection) => connection.member(trace),
            None => trace.member_of(self.location),
        }
    }
}

impl Connection {
    /// The communicator location for its rank; `None` if it is unknown here.
    pub fn member(self, trace: &Trace) -> Option<LocationRef> {
        match self.rank {
            ConnectionRank::Member(comm, rank) => trace.members(comm).get(index(rank)).copied(),
            ConnectionRank::Foreign(_) | ConnectionRank::Unknown => None,
        }
    }
}

nccl_events::fields! {
    struct LaneFields {
        comm: Comm,
        rank: Rank,
        channel: Channel,
        peer: Peer,
        step: Step,
    }
}

impl Trace {
    /// The kind of lane of a record with these attributes.
    pub fn lane_of(&self, region: RegionRef, attributes: &[(AttributeRef, AttributeValue)]) -> Option<LaneKind> {
        let fields: LaneFields<'_> = self.read_fields(attributes);
        let kind = match self.role(region)? {
            Role::Operation(_) => return Some(LaneKind::Operations),
            role => role.kind(),
        };
        let connection = || {
            let origin = attributes.iter().find_map(|(attribute, value)| match value {
                AttributeValue::String(text) if self.attribute(*attribute) == Some(AttributeId::Origin) => Some(*text),
                _ => None,
            });
            let rank = match (fields.comm.zip(fields.rank), origin) {
                (Some((comm, rank)), _) => ConnectionRank::Member(CommRef::new(comm), rank),
                (None, Some(origin)) => ConnectionRank::Foreign(origin),
                (None, None) => ConnectionRank::Unknown,
            };
            let is_send = self.is_send(region)?;
            Some(Connection { rank, channel: fields.channel?, is_send, peer: fields.peer.unwrap_or(u32::MAX) })
        };
        let slot = || u32::from(step_slot(fields.step.unwrap_or(0)));
        Some(match kind {
            Kind::KernelCh => LaneKind::Channel(fields.channel?),
            Kind::KernelPhase => LaneKind::Phases(fields.channel?),
            Kind::ProxyOp => LaneKind::Connection(connection()?),
            Kind::ProxyStep => LaneKind::Slot(connection()?, slot()),
            Kind::NetPlugin => LaneKind::Plugin(connection()?, slot()),
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub struct Slices<'a> {
    trace: &'a Trace,
    location: LocationRef,
    open: Vec<Slice>,
    /// When the rows of each kind of lane are free.
    free_from: BTreeMap<LaneKind, Vec<u64>>,
}

impl<'a> Slices<'a> {
    pub const fn new(trace: &'a Trace, location: LocationRef) -> Self {
        Self { trace, location, open: Vec::new(), free_from: BTreeMap::new() }
    }

    /// The lane of what lasts from `start_ns` to `stop_ns`, which no other one of the lane overlaps: they come by their
    /// ends. Returns the begin, too: durations are by the clock of the process, so that of two that follow each other
    /// the later may begin a little early on a clock that several hosts share.
    fn lane(&mut self, shows: LaneKind, start_ns: u64, stop_ns: u64) -> (Lane, u64) {
        let is_corrected = self.trace.statements.hosts.number.get() > 1;
        let stretch_ns = if is_corrected { 1 + stop_ns.saturating_sub(start_ns) / 10_000 } else { 0 };
        let rows = self.free_from.entry(shows).or_default();
        let latest_ns = start_ns.saturating_add(stretch_ns).min(stop_ns);
        let row = rows.iter().position(|from| *from <= latest_ns).unwrap_or(rows.len());
        let lane = Lane { location: self.location, shows, row: index_u32(row) };
        match rows.get_mut(row) {
            Some(from) => (lane, start_ns.max(std::mem::replace(from, stop_ns))),
            None => {
                rows.push(stop_ns);
                (lane, start_ns)
            }
        }
    }

    /// The slices that have begun but not ended, innermost last.
    pub fn open(&self) -> &[Slice] {
        &self.open
    }

    /// Processes an event and returns the slice it ends, if any. A LEAVE without a matching ENTER ends none.
    pub fn step(&mut self, time_ns: u64, event: &Event) -> Option<Slice> {
        match event.kind {
            EventKind::Enter(region) => {
                self.open.push(Slice {
                    location: self.location,
                    region,
                    role: self.trace.role(region),
                    depth: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
                    start_ns: time_ns,
                    cut_ns: self.trace.attributes.cut_ns(&event.attributes).unwrap_or(0),
                    stop_ns: time_ns,
                    attributes: event.attributes.clone(),
                    lane: None,
                });
                None
            }
            EventKind::ParameterUnsignedInt { .. } => {
                let Recorded { region, duration_ns } = self.trace.recorded(event)?;
                let (mut start_ns, stop_ns) = (time_ns.saturating_sub(duration_ns), time_ns);
                let shows = self.trace.lane_of(region, &event.attributes);
                let lane = shows.map(|shows| {
                    let (lane, begin_ns) = self.lane(shows, start_ns, stop_ns);
                    start_ns = begin_ns;
                    lane
                });
                Some(Slice {
                    location: self.location,
                    region,
                    role: self.trace.role(region),
                    depth: 0,
                    start_ns,
                    cut_ns: 0,
                    stop_ns,
                    attributes: event.attributes.clone(),
                    lane,
                })
            }
            EventKind::Leave(_) => {
                let mut slice = self.open.pop()?;
                slice.stop_ns = time_ns;
                slice.attributes.extend(&event.attributes);
                Some(slice)
            }
            _ => None,
        }
    }
}

impl Trace {
    /// Visits the region instances of a location in the order of their ends.
    pub fn instances<'a>(&'a self, location: LocationRef, each: impl FnMut(&Instance<'a>)) -> otf2::Result<()> {
        self.instances_with(location, each)
    }

    /// The same with other attributes: the fewer, the faster.
    pub fn instances_with<'a, F: nccl_events::schema::attribute::Fields<'a> + Copy>(
        &'a self,
        location: LocationRef,
        mut each: impl FnMut(&InstanceOf<F>),
    ) -> otf2::Result<()> {
        let mut instances = Instances::new(self);
        self.archive.for_each_event(&[location], |_, event| {
            if let StepOf::Left(instance) | StepOf::Recorded(instance) = instances.step(event) {
                each(&instance);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// The lanes of a location, with the number of their records.
    pub fn lanes(&self, location: LocationRef) -> otf2::Result<BTreeMap<Lane, u64>> {
        let mut lanes = BTreeMap::new();
        self.slices(location, |slice| {
            if let Some(lane) = slice.lane {
                *lanes.entry(lane).or_insert(0) += 1;
            }
            ControlFlow::Continue(())
        })?;
        Ok(lanes)
    }

    /// Visits the slices of a location in the order of their ends, until `each` breaks.
    pub fn slices(&self, location: LocationRef, mut each: impl FnMut(&Slice) -> ControlFlow<()>) -> otf2::Result<()> {
        let clock = Clock::from_trace(self);
        let mut slices = Slices::new(self, location);
        self.archive.for_each_event(&[location], |_, event| match slices.step(clock.ns(event.time), event) {
            Some(slice) => each(&slice),
            None => ControlFlow::Continue(()),
        })?;
        Ok(())
    }
}

/// The actions of a communicator's ranks, given one rank after another. Ranks are compared with the longest sequence so
/// far, which takes four bytes per action, however many ranks there are.
#[derive(Clone, Debug)]
pub struct Sequences<T> {
    things: Vec<T>,
    numbers: BTreeMap<T, u32>,
    longest: Vec<u32>,
    /// From which position on which rank's actions are stored.
    whose: Vec<(usize, u32)>,
    counts: BTreeMap<u32, usize>,
}

/// What another rank did at the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart<'a, T> {
    pub place: usize,
    pub rank: u32,
    pub thing: &'a T,
}

impl<T> Default for Sequences<T> {
    fn default() -> Self {
        Self {
            things: Vec::new(),
            numbers: BTreeMap::new(),
            longest: Vec::new(),
            whose: Vec::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl<T: Ord + Clone> Sequences<T> {
    /// Adds the next action of a rank; returns what an earlier rank did at the same position, if any.
    pub fn add(&mut self, rank: u32, thing: T) -> Option<Counterpart<'_, T>> {
        let count = self.counts.entry(rank).or_default();
        let place = *count;
        *count += 1;
        let Some(number) = self.longest.get(place) else {
            let number = self.number(thing);
            self.longest.push(number);
            if self.whose.last().is_none_or(|(_, whose)| *whose != rank) {
                self.whose.push((place, rank));
            }
            return None;
        };
        let (_, other) = self.whose.get(self.whose.partition_point(|(from, _)| *from <= place).checked_sub(1)?)?;
        Some(Counterpart { place, rank: *other, thing: self.things.get(usize::try_from(*number).ok()?)? })
    }

    fn number(&mut self, thing: T) -> u32 {
        let next = u32::try_from(self.things.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(thing.clone()).or_insert(next);
        if number == next {
            self.things.push(thing);
        }
        number
    }

    pub fn count(&self, rank: u32) -> usize {
        self.counts.get(&rank).copied().unwrap_or(0)
    }

    pub fn longest(&self) -> Option<(u32, usize)> {
        let (_, rank) = self.whose.last()?;
        Some((*rank, self.longest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_compared_with_the_longest_before_them() {
        let mut sequences = Sequences::default();
        let differences = |sequences: &mut Sequences<char>, rank, things: &str| {
            let mut found = Vec::new();
            for thing in things.chars() {
                if let Some(other) = sequences.add(rank, thing)
                    && *other.thing != thing
                {
                    found.push((other.place, other.rank, *other.thing));
                }
            }
            found
        };
        assert_eq!(differences(&mut sequences, 4, "ab"), []);
        assert_eq!(differences(&mut sequences, 1, "abba"), []);
        assert_eq!(differences(&mut sequences, 2, "axby"), [(1, 4, 'b'), (3, 1, 'a')]);
        assert_eq!(sequences.longest(), Some((1, 4)));
        assert_eq!((sequences.count(4), sequences.count(7)), (2, 0));
    }
}
