//! What an export reads and writes: the archive and the filter, the selected locations and events, traces of the same
//! job by other profilers, and files that several threads write.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::error::{Error, Outcome, Result};
use crate::values::Line;
use analysis::{Clock, Fields, Filter, LaneKind, RegionInfo, Role, Slice, Slices, Trace, try_in_parallel};
use flate2::Compression;
use flate2::write::GzEncoder;
use nccl_events::archive::region::NETWORK;
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::collective::Function;
use nccl_events::schema::definition::ClockAnchors;
use nccl_events::sort::Gather;
use nccl_events::{Kind, Progress};
use otf2::{ClockOffset, Event, EventKind, LocationGroupRef, LocationRef, RegionRef, SystemTreeNodeRef};
use parking_lot::Mutex;

/// The selected locations of an archive, and the selected events on them.
pub struct Selection<'a> {
    source: Source<'a>,
    clock: Clock,
    locations: Vec<LocationRef>,
    /// Event ids that belong to the wanted functions, ascending; `None` if all are wanted.
    ids: Option<Vec<u64>>,
}

/// Records that a format of NCCL's region instances has no place for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtherRecords {
    /// Regions and other records, such as messages, on locations that NCCL's writer did not make.
    foreign_regions: u64,
    foreign_others: u64,
    /// On all locations.
    metrics: u64,
}

struct OpenRegion {
    is_wanted: bool,
    /// Its ENTER, held while it is unknown whether the region reaches into the selected time.
    held: Option<Event>,
}

impl OtherRecords {
    /// Says what a format without metrics left out; `has_regions` if it takes regions of any writer.
    pub(crate) fn left_out(self, has_regions: bool, outcome: &mut Outcome) {
        if !has_regions {
            let reason = "regions on locations that are not NCCL's: the format takes only NCCL's activity";
            outcome.leave_out(self.foreign_regions, reason);
        }
        outcome.leave_out(self.metrics, "records of metrics: the format has no place for them");
        outcome.leave_out(self.foreign_others, FOREIGN_OTHERS);
    }
}

pub(crate) const FOREIGN_OTHERS: &str = "other records on locations that are not NCCL's (messages, collectives, threads, files): the format has no place for \
     them";

impl<'a> Selection<'a> {
    /// Determines the selection. A filter on functions makes this read the operations and the network transfers.
    pub fn new(source: Source<'a>) -> Result<Self> {
        let locations = source.locations();
        let mut found = Self { source, clock: Clock::from_trace(source.trace), locations, ids: None };
        if !source.filter.functions.is_empty() {
            found.ids = Some(found.ids_of_functions()?);
        }
        Ok(found)
    }

    pub fn locations(&self) -> &[LocationRef] {
        &self.locations
    }

    pub(crate) fn wants_time(&self, start_ns: u64, stop_ns: u64) -> bool {
        self.source.filter.wants_time(start_ns, stop_ns)
    }

    pub fn locations_of_kinds(&self, kinds: &[LocationKind]) -> Vec<LocationRef> {
        let is_one = |location: &LocationRef| {
            self.source.trace.location_kind(*location).is_some_and(|kind| kinds.contains(&kind))
        };
        self.locations.iter().copied().filter(is_one).collect()
    }

    /// Passes the wanted events of a location in order, with the time in ns from the start of the trace. Every ENTER
    /// has its LEAVE; regions that reach into the selected time are complete.
    pub fn events(&self, location: LocationRef, mut each: impl FnMut(u64, &Event)) -> Result<()> {
        let filter = self.source.filter;
        let mut open: Vec<OpenRegion> = Vec::new();
        let mut has_begun = false;
        let trace = self.source.trace;
        let has_records = !trace.definitions.parameters.is_empty();
        trace.archive.for_each_event(&[location], |_, event| {
            let time_ns = self.clock.ns(event.time);
            let is_before = filter.from_ns.is_some_and(|from_ns| time_ns < from_ns);
            let is_after = filter.to_ns.is_some_and(|to_ns| time_ns > to_ns);
            if !is_before && !has_begun {
                has_begun = true;
                for event in open.iter_mut().filter_map(|region| region.held.take()) {
                    each(self.clock.ns(event.time), &event);
                }
            }
            match event.kind {
                EventKind::Enter(region) => {
                    let around = open.last().is_none_or(|around| around.is_wanted);
                    let is_wanted = !is_after && self.wants(region, event, around);
                    let is_held = is_wanted && is_before;
                    if is_wanted && !is_held {
                        each(time_ns, event);
                    }
                    open.push(OpenRegion { is_wanted, held: is_held.then(|| event.clone()) });
                }
                EventKind::Leave(_) => {
                    if open.pop().is_some_and(|region| region.is_wanted && region.held.is_none()) {
                        each(time_ns, event);
                    }
                }
                EventKind::ParameterUnsignedInt { .. } if let Some(recorded) = trace.recorded(event) => {
                    let begins_after = |to_ns| time_ns.saturating_sub(recorded.duration_ns) > to_ns;
                    let is_outside = is_before || filter.to_ns.is_some_and(begins_after);
                    if !is_outside
                        && self.source.wants_record(location, recorded.region, event)
                        && self.wants(recorded.region, event, true)
                    {
                        each(time_ns, event);
                    }
                }
                _ if is_before || is_after || self.ids.is_some() => {}
                _ => each(time_ns, event),
            }
            // A record comes at the end of what it shows.
            let is_over = is_after && !has_records && !open.iter().any(|region| region.is_wanted);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }

    /// Counts what is beside NCCL's region instances. Reads locations of other writers and, if there are metrics, all.
    pub(crate) fn other_records(&self) -> Result<OtherRecords> {
        let trace = self.source.trace;
        let is_foreign = |location: &LocationRef| trace.location_kind(*location).is_none();
        let has_metrics = !trace.definitions.metric_classes.is_empty();
        let locations: Vec<LocationRef> =
            self.locations.iter().copied().filter(|location| has_metrics || is_foreign(location)).collect();
        let counted = self.source.each_location(&locations, |location| {
            let mut found = OtherRecords::default();
            let foreign = u64::from(is_foreign(&location));
            self.events(location, |_, event| match event.kind {
                EventKind::Metric { .. } => found.metrics += 1,
                EventKind::Enter(_) => found.foreign_regions += foreign,
                EventKind::Leave(_) => {}
                _ => found.foreign_others += foreign,
            })?;
            Ok(found)
        })?;
        let sum = |count: fn(&OtherRecords) -> u64| counted.iter().map(count).sum();
        Ok(OtherRecords {
            foreign_regions: sum(|records| records.foreign_regions),
            foreign_others: sum(|records| records.foreign_others),
            metrics: sum(|records| records.metrics),
        })
    }

    /// Passes the wanted region instances and records of a location in the order of their ends.
    pub fn slices(&self, location: LocationRef, mut each: impl FnMut(&Slice)) -> Result<()> {
        self.nested_slices(location, |slice, _around| each(slice))
    }

    /// The same, each with the wanted ones around it, innermost last.
    pub fn nested_slices(&self, location: LocationRef, mut each: impl FnMut(&Slice, &[Slice])) -> Result<()> {
        let mut slices = Slices::new(self.source.trace, location);
        self.events(location, |time_ns, event| {
            if let Some(slice) = slices.step(time_ns, event) {
                each(&slice, slices.open());
            }
        })
    }

    /// Whether a region is selected by its own function, or by the function of its operation.
    fn wants(&self, region: RegionRef, enter: &Event, around_is_wanted: bool) -> bool {
        let Some(ids) = &self.ids else {
            return true;
        };
        let fields = self.source.trace.fields_of(&enter.attributes);
        let has = |id: Option<u64>| id.is_some_and(|id| ids.binary_search(&id).is_ok());
        match (fields.event, fields.parent) {
            // A call that only NVTX shows has no id.
            (None, None) if self.is_call(region) => self.source.filter.wants_function(self.source.trace, region),
            // It does not say which operations the transfers are of.
            (None, None) if self.is_network(region) => false,
            // A part of the enclosing region.
            (None, None) => around_is_wanted,
            (event, parent) => has(event) || has(parent) || self.is_of_function(region),
        }
    }

    /// Whether a region is a call of a collective, a send or a receive.
    fn is_call(&self, region: RegionRef) -> bool {
        let is_one =
            |region: RegionInfo<'_>| region.class == RegionClass::Api && Function::from_region(region.name).is_some();
        self.source.trace.region(region).is_some_and(is_one)
    }

    /// Whether a region shows that a thread has transfers in flight.
    fn is_network(&self, region: RegionRef) -> bool {
        self.source.trace.region(region).is_some_and(|region| region.name == NETWORK)
    }

    fn is_of_function(&self, region: RegionRef) -> bool {
        matches!(self.source.trace.role(region), Some(Role::Call(_) | Role::Operation(_)))
            && self.source.filter.wants_function(self.source.trace, region)
    }

    fn ids_of_functions(&self) -> Result<Vec<u64>> {
        let trace = self.source.trace;
        let (source, all) = (self.source, self);
        let operation_ids =
            source.each_location(&self.locations_of_kinds(&[LocationKind::Communicator]), |location| {
                let mut ids = Vec::new();
                all.slices(location, |slice| {
                    if all.is_of_function(slice.region) {
                        let fields = trace.fields_of(&slice.attributes);
                        ids.extend(fields.event.into_iter().chain(fields.parent));
                    }
                })?;
                Ok(ids)
            })?;
        let ids: BTreeSet<u64> = operation_ids.into_iter().flatten().collect();
        let transfer_ids =
            source.each_location(&self.locations_of_kinds(&[LocationKind::ProxyThread]), |location| {
                let mut found = Vec::new();
                all.slices(location, |slice| {
                    let fields = trace.fields_of(&slice.attributes);
                    let is_transfer = slice.role == Some(Role::Work(Kind::ProxyOp));
                    if is_transfer && fields.parent.is_some_and(|parent| ids.contains(&parent)) {
                        found.extend(fields.event);
                    }
                })?;
                Ok(found)
            })?;
        let mut ids: Vec<u64> = ids.into_iter().chain(transfer_ids.into_iter().flatten()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

// The times of traces by other profilers are CLOCK_REALTIME of the host where they were taken.

pub(crate) fn names(traces: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut names: Vec<PathBuf> = traces.iter().filter_map(|trace| trace.file_name().map(PathBuf::from)).collect();
    nccl_events::sort::sort(&mut names);
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = twice[0].display();
        return Err(Error::Refused(format!("two of the traces are named {name}: their copies would be the same file")));
    }
    Ok(names)
}

pub(crate) fn hosts(trace: &Trace, locations: impl Iterator<Item = LocationRef>) -> BTreeSet<SystemTreeNodeRef> {
    locations.filter_map(|location| trace.host(trace.group(location))).gather()
}

/// Converts CLOCK_REALTIME of a location's host to ns from the archive's start, over the span of a trace of that host.
pub(crate) fn clock(source: &Source<'_>, location: LocationRef, path: &Path, span_ns: [i128; 2]) -> Result<Line> {
    let (trace, name) = (source.trace, path.display());
    let process = trace.process(trace.group(location));
    let Some(definition) =
        trace.definitions.clock.as_ref().filter(|properties| properties.realtime_timestamp != u64::MAX)
    else {
        return Err(Error::Refused(format!(
            "{name} counts from 1970, and the archive does not say when it was recorded: their clocks cannot be related"
        )));
    };
    let anchors = trace.group_property(process, ClockAnchors).unwrap_or_default();
    // CLOCK_REALTIME minus CLOCK_MONOTONIC, read closest to the span, because CLOCK_REALTIME is slewed.
    let readings = anchors.iter().map(|anchor| {
        let realtime_ns = i128::from(anchor.realtime_ns);
        (realtime_ns, realtime_ns - i128::from(anchor.monotonic_ns))
    });
    let Some((_, behind_ns)) = readings.min_by_key(|(realtime_ns, _)| (realtime_ns - span_ns[0]).abs()) else {
        let recorded = trace.definitions.locations.keys().copied().filter(|location| trace.has_events(*location));
        if hosts(trace, recorded).len() < 2 {
            return Ok(Line { from: span_ns, to: span_ns }.less(source.begin_ns().into()));
        }
        return Err(Error::Refused(format!(
            "{name}: the archive is of several hosts and does not say what the clocks of {} showed \
             (NCCL::CLOCK::ANCHORS): they cannot be related",
            trace.group_name(process)
        )));
    };
    // Event files use CLOCK_MONOTONIC; the clock offsets convert it to the archive's clock.
    let offsets = trace.archive.local_definitions(location)?.clock_offsets;
    let corrected = |realtime_ns: i128| {
        let local_ns = realtime_ns - behind_ns;
        local_ns + offset_ns(&offsets, local_ns).unwrap_or(behind_ns)
    };
    Ok(Line { from: span_ns, to: span_ns.map(corrected) }.less(definition.global_offset.into()))
}

/// Refuses a trace that does not overlap the archive in time.
pub(crate) fn refuse_apart(source: &Source<'_>, clock: &Line, path: &Path, span_ns: [i128; 2]) -> Result<()> {
    let length_ns = i128::from(source.length_ns());
    let [from_ns, to_ns] = span_ns.map(|at_ns| clock.at(at_ns));
    if to_ns >= 0 && from_ns <= length_ns {
        return Ok(());
    }
    let clock = clock.inverse();
    let [theirs, ours] = [span_ns, [0, length_ns].map(|at_ns| clock.at(at_ns))].map(|span| span.map(seconds));
    Err(Error::Refused(format!(
        "{} has nothing in common with the archive: it was taken from {} to {}, the archive from {} to {} (s since \
         1970)",
        path.display(),
        theirs[0],
        theirs[1],
        ours[0],
        ours[1]
    )))
}

fn seconds(ns: i128) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// The clock offset at a time, computed as readers of OTF2 do; `None` if there are no offsets.
fn offset_ns(offsets: &[ClockOffset], local_ns: i128) -> Option<i128> {
    let behind = offsets.partition_point(|offset| i128::from(offset.time) < local_ns);
    let pair = match offsets {
        [] => return None,
        [only] => return Some(only.offset.into()),
        _ => &offsets[behind.clamp(1, offsets.len() - 1) - 1..][..2],
    };
    let from = [i128::from(pair[0].time), i128::from(pair[1].time)];
    let to = [i128::from(pair[0].offset), i128::from(pair[1].offset)];
    Some(if from[0] == from[1] { to[0] } else { Line { from, to }.at(local_ns) })
}

/// The archive and the filter of an export, and the receiver of progress.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub trace: &'a Trace,
    pub filter: &'a Filter,
    pub progress: &'a dyn Progress,
}

impl<'a> Source<'a> {
    /// The locations that match the filter and have events, ascending: those of its ranks and communicators, the
    /// threads and ranges of their processes, and the streams of their GPUs.
    pub fn locations(&self) -> Vec<LocationRef> {
        let trace = self.trace;
        let all = trace.definitions.locations.keys().copied().filter(|location| trace.has_events(*location));
        if self.filter.communicators.is_empty() && self.filter.ranks.is_empty() {
            return all.collect();
        }
        let members = trace.definitions.locations.keys().copied();
        let members = members.filter(|location| trace.location_kind(*location) == Some(LocationKind::Communicator));
        let groups = members.filter(|location| self.wants_rank(*location)).map(|location| trace.group(location));
        let groups: BTreeSet<LocationGroupRef> = groups.flat_map(|group| [group, trace.process(group)]).gather();
        let is_wanted = |location: &LocationRef| match trace.location_kind(*location) {
            _ if trace.rank_of(*location).is_some() => self.wants_rank(*location),
            Some(
                LocationKind::ApiThread
                | LocationKind::CallbackThread
                | LocationKind::ProxyThread
                | LocationKind::Ranges
                | LocationKind::Stream,
            ) => groups.contains(&trace.group(*location)),
            _ => false,
        };
        all.filter(is_wanted).collect()
    }

    pub(crate) fn wants_rank(&self, location: LocationRef) -> bool {
        let filter = self.filter;
        self.trace.rank_of(location).is_some_and(|(comm, rank)| {
            (filter.communicators.is_empty() || filter.communicators.contains(&comm))
                && (filter.ranks.is_empty() || filter.ranks.contains(&rank))
        })
    }

    /// Whether a record on a wanted location is of a wanted rank: a thread works for several.
    fn wants_record(&self, location: LocationRef, region: RegionRef, event: &Event) -> bool {
        let filter = self.filter;
        if filter.communicators.is_empty() && filter.ranks.is_empty() {
            return true;
        }
        let connection = self.trace.lane_of(region, &event.attributes).and_then(LaneKind::connection);
        let member = connection.map(|connection| connection.member(self.trace));
        member.unwrap_or(Some(location)).is_some_and(|member| self.wants_rank(member))
    }

    /// Handles every location on all cores, the largest first; returns results in the order of `locations`.
    pub fn each_location<T: Send>(
        &self,
        locations: &[LocationRef],
        each: impl Fn(LocationRef) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.progress.begin("locations", locations.len() as u64);
        let mut order: Vec<(usize, LocationRef)> = locations.iter().copied().enumerate().collect();
        nccl_events::sort::sort_by_key(&mut order, |(_, location)| std::cmp::Reverse(self.trace.events_of(*location)));
        let made = try_in_parallel(order, |(at, location)| {
            let made = each(location)?;
            self.progress.step();
            Ok::<_, Error>((at, made))
        });
        let mut made: Vec<(usize, T)> = made?;
        nccl_events::sort::sort_by_key(&mut made, |(at, _)| *at);
        self.progress.end();
        Ok(made.into_iter().map(|(_, made)| made).collect())
    }

    /// The results of `of` for the attributes of each region instance, on the locations of one kind.
    pub(crate) fn fields<T: Send>(
        &self,
        kind: LocationKind,
        of: impl Fn(Fields<'a>) -> Option<T> + Sync,
    ) -> Result<Vec<T>> {
        let trace = self.trace;
        let mut locations = self.locations();
        locations.retain(|location| trace.location_kind(*location) == Some(kind));
        let location_rows = self.each_location(&locations, |location| {
            let mut found = Vec::new();
            trace.slices(location, |slice| {
                found.extend(of(trace.fields_of(&slice.attributes)));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        })?;
        Ok(location_rows.into_iter().flatten().collect())
    }

    pub fn length_ns(&self) -> u64 {
        Clock::from_trace(self.trace).length_ns(self.trace)
    }

    /// The archive's start in ns since 1970 or, if the archive does not state when that was, in its own ns.
    pub fn begin_ns(&self) -> u64 {
        let Some(clock) = &self.trace.definitions.clock else {
            return 0;
        };
        match clock.realtime_timestamp {
            u64::MAX => clock.global_offset,
            realtime_ns => realtime_ns,
        }
    }
}

pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// A file that several threads write.
pub(crate) struct Output {
    writer: Mutex<Writer>,
    path: PathBuf,
}

enum Writer {
    /// Opened for each piece: a job can have more ranks than a process may open files.
    Pieces,
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl Output {
    /// Creates a file, compressed if its name says so.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = BufWriter::with_capacity(CHUNK_BYTES, File::create_new(path).map_err(Error::io("make", path))?);
        let writer = if is_compressed(path) {
            Writer::Compressed(GzEncoder::new(file, Compression::fast()))
        } else {
            Writer::Plain(file)
        };
        Ok(Self { writer: Mutex::new(writer), path: path.to_owned() })
    }

    pub(crate) fn in_pieces(path: &Path) -> Result<Self> {
        drop(File::create_new(path).map_err(Error::io("make", path))?);
        Ok(Self { writer: Mutex::new(Writer::Pieces), path: path.to_owned() })
    }

    pub(crate) fn append(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let bytes = bytes.as_ref();
        let written = match &mut *self.writer.lock() {
            Writer::Pieces => {
                let file = OpenOptions::new().append(true).open(&self.path);
                file.and_then(|mut file| file.write_all(bytes))
            }
            Writer::Plain(file) => file.write_all(bytes),
            Writer::Compressed(file) => file.write_all(bytes),
        };
        written.map_err(Error::io("write", &self.path))
    }

    pub(crate) fn finish(self) -> Result<()> {
        let finished = match self.writer.into_inner() {
            Writer::Pieces => return Ok(()),
            Writer::Plain(file) => Ok(file),
            Writer::Compressed(file) => file.finish(),
        };
        let written = finished.and_then(|file| file.into_inner().map_err(io::Error::from));
        written.map(drop).map_err(Error::io("write", &self.path))
    }
}

pub(crate) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

#[cfg(test)]
mod tests {
    use otf2::ClockOffset;

    use super::offset_ns;

    #[test]
    fn offsets_are_as_readers_apply_them() {
        let offset = |time, offset| ClockOffset { time, offset, standard_deviation: 0.0 };
        assert_eq!(offset_ns(&[], 5), None);
        assert_eq!(offset_ns(&[offset(0, 9)], 5), Some(9));
        let some = [offset(10, 100), offset(20, 200), offset(30, 200)];
        assert_eq!([5, 15, 25, 40].map(|at| offset_ns(&some, at)), [Some(50), Some(150), Some(200), Some(200)]);
    }
}
