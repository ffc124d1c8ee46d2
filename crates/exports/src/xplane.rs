//! An XSpace for TensorBoard and xprof: a plane per rank, a line per location, an event per region instance with its
//! attributes as stats.
//!
//! ```text
//!  HostProfile   when and on which host a foreign profile was taken
//!  Plane         assigns locations to ranks' planes
//!  Line, Spool   the events of a location, in a temporary file
//! ```
//!
//! A plane is preceded by its length, so its events are first written to a separate file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::{Error, Outcome, Result};
use crate::protobuf::{
    CUSTOM_DEVICE, Message as _, PROFILE_START_TIME, PROFILE_STOP_TIME, TASK_ENVIRONMENT, XEvent, XEventMetadata,
    XLine, XPlane, XSpace, XStat, XStatMetadata, begin_line, begin_plane, line_bytes,
};
use crate::source;
use crate::source::{CHUNK_BYTES, Selection, Source};
use crate::values::{Line as Clock, Value, signed};
use analysis::{Filter, Lane, Slice, Trace};
use nccl_events::archive::LocationKind;
use nccl_events::sort::Gather;
use otf2::{
    Archive, AttributeRef, AttributeValue, CommRef, LocationGroupRef, LocationRef, RegionRef, StringRef,
    SystemTreeNodeRef,
};
use parking_lot::Mutex;

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let begin_ns = source.begin_ns();
    let mut file = File::create_new(out).map_err(Error::io("make", out))?;
    let profile = HostProfile::new(begin_ns, begin_ns.saturating_add(source.length_ns()));
    file.write_all(&profile.space()).map_err(Error::io("write", out))?;
    let selection = Selection::new(*source)?;
    let window = Window { clock: Clock::later(begin_ns.into()), origin_ns: begin_ns, from_ns: 0, to_ns: u64::MAX };
    let mut outcome = append(source, &selection, selection.locations(), |_| Ok(window), &file, out)?;
    selection.other_records()?.left_out(true, &mut outcome);
    Ok(outcome)
}

/// Puts planes into copies of host profiles: each copy gets the planes of its host's processes, on its clock. For one
/// profile `out` is the copy, for several a folder of copies.
pub fn into(source: &Source<'_>, profiles: &[PathBuf], out: &Path) -> Result<Outcome> {
    let names = source::names(profiles)?;
    let selection = Selection::new(*source)?;
    let trace = source.trace;
    let mut hosts = source::hosts(trace, selection.locations().iter().copied());
    if hosts.is_empty() {
        return Err(Error::Refused("the archive has no matching events".to_owned()));
    }
    let all = hosts.clone();
    let is_folder = profiles.len() > 1;
    if is_folder {
        fs::create_dir(out).map_err(Error::io("make", out))?;
    }
    let mut outcome = Outcome { files: if is_folder { names } else { vec![PathBuf::new()] }, ..Outcome::default() };
    let mut outside = 0;
    for path in profiles {
        let profile = HostProfile::read(path, MOST_BYTES)?;
        let host = profile.host(trace, &all, path)?;
        hosts.remove(&host);
        let out = if is_folder { out.join(path.file_name().unwrap_or_default()) } else { out.to_owned() };
        let written = into_one(source, &selection, (path, &profile, host), &out)?;
        outcome.events += written.events;
        outside += written.left_out.iter().map(|left_out| left_out.events).sum::<u64>();
    }
    outcome.leave_out(outside, OUTSIDE);
    let elsewhere = selection
        .locations()
        .iter()
        .filter(|location| trace.host(trace.group(**location)).is_some_and(|node| hosts.contains(&node)));
    let records = elsewhere.map(|location| trace.events_of(*location)).sum();
    outcome.leave_out(records, "records of processes on hosts without a given profile");
    Ok(outcome)
}

/// Reason for leaving out events that begin outside a profile.
const OUTSIDE: &str = "events that began before or after the host's profile";

fn into_one(
    source: &Source<'_>,
    selection: &Selection<'_>,
    (path, profile, host): (&Path, &HostProfile, SystemTreeNodeRef),
    out: &Path,
) -> Result<Outcome> {
    let trace = source.trace;
    let is_there = |location: &LocationRef| trace.host(trace.group(*location)) == Some(host);
    let locations: Vec<LocationRef> = selection.locations().iter().copied().filter(is_there).collect();
    let span_ns = profile.span_ns(source.begin_ns().saturating_add(source.length_ns()));
    let clock = |location| source::clock(source, location, path, span_ns);
    if let Some(first) = locations.first() {
        source::refuse_apart(source, &clock(*first)?, path, span_ns)?;
    }
    let mut file = File::create_new(out).map_err(Error::io("make", out))?;
    let mut profile_file = regular_files::open_named(path, MOST_BYTES).map_err(Error::io("read", path))?;
    io::copy(&mut profile_file, &mut file).map_err(Error::io("copy", path))?;
    let window = |location| {
        let (origin_ns, to_ns) = (profile.begin_ns, profile.end_ns);
        Ok(Window { clock: clock(location)?.inverse(), origin_ns, from_ns: origin_ns, to_ns })
    };
    append(source, selection, &locations, window, &file, out)
}

/// The events of an archive that began between two times (ns since 1970) as planes only, with times since 1970, as a
/// profiler passes them to TensorFlow. Puts a file beside the anchor.
pub fn planes(anchor: &Path, from_ns: u64, to_ns: u64) -> Result<Vec<u8>> {
    let trace = Trace::read(anchor.to_owned(), Archive::open(anchor)?)?;
    let source = Source { trace: &trace, filter: &Filter::default(), progress: &() };
    let out = anchor.with_extension("xplane.pb");
    let file = File::create_new(&out).map_err(Error::io("make", &out))?;
    let selection = Selection::new(source)?;
    let window = Window { clock: Clock::later(source.begin_ns().into()), origin_ns: 0, from_ns, to_ns };
    append(&source, &selection, selection.locations(), |_| Ok(window), &file, &out)?;
    fs::read(&out).map_err(Error::io("read", &out))
}

const MOST_BYTES: u64 = i32::MAX as u64;

fn refuse_too_large(file: &File, lines: &[Line], out: &Path) -> Result<()> {
    let bytes = file.metadata().map_err(Error::io("look at", out))?.len();
    let bytes = bytes + lines.iter().map(Line::bytes).sum::<u64>();
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let why = format!(
        "{} MiB, but TensorBoard reads at most 2047 MiB: select a part with --from, --to, --rank or \
        --comm",
        bytes >> 20
    );
    Err(Error::Refused(why))
}

fn append(
    source: &Source<'_>,
    selection: &Selection<'_>,
    locations: &[LocationRef],
    window: impl Fn(LocationRef) -> Result<Window> + Sync,
    mut file: &File,
    out: &Path,
) -> Result<Outcome> {
    let spool = Spool::beside(out)?;
    let lines = source
        .each_location(locations, |location| Line::write(source, selection, location, window(location)?, &spool))?;
    let lines: Vec<Line> = lines.into_iter().flatten().collect();
    refuse_too_large(file, &lines, out)?;
    let mut outcome = Outcome { files: vec![PathBuf::new()], ..Outcome::default() };
    outcome.events = lines.iter().map(|line| line.events).sum();
    outcome.leave_out(lines.iter().map(|line| line.outside).sum(), OUTSIDE);
    for plane in Plane::all(source.trace, lines) {
        let mut head = Vec::new();
        plane.begin(source.trace, &mut head);
        file.write_all(&head).map_err(Error::io("write", out))?;
        for line in &plane.lines {
            let mut head = Vec::new();
            begin_line(&line.head, line.bytes(), &mut head);
            file.write_all(&head).map_err(Error::io("write", out))?;
            spool.copy(&line.extents, file).map_err(Error::io("write", out))?;
        }
    }
    Ok(outcome)
}

/// The origin of times, and the range in which wanted events begin; all in ns since 1970, on one host's clock.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Converts from ns from the start of the archive to that clock.
    pub(crate) clock: Clock,
    pub(crate) origin_ns: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Window {
    fn since_1970(&self, after_ns: u64) -> u64 {
        u64::try_from(self.clock.at(after_ns.into())).unwrap_or(0)
    }

    /// When lines begin.
    fn base_ns(&self) -> u64 {
        self.since_1970(0).max(self.from_ns)
    }
}

/// A range of bytes in the file: offset and length.
type Extent = (u64, u64);

/// The file that holds the events of locations until the planes are known.
pub(crate) struct Spool {
    file: Mutex<(File, u64)>,
    path: PathBuf,
}

impl Spool {
    /// Creates the file beside `out`, and unlinks it at once, so that it disappears with the process.
    pub(crate) fn beside(out: &Path) -> Result<Self> {
        let mut name = out.as_os_str().to_owned();
        name.push(".events");
        let path = PathBuf::from(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(Error::io("make", &path))?;
        fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        Ok(Self { file: Mutex::new((file, 0)), path })
    }

    fn append(&self, bytes: &[u8]) -> Result<Extent> {
        let mut file = self.file.lock();
        let (file, end) = &mut *file;
        let extent = (*end, bytes.len() as u64);
        file.write_all(bytes).map_err(Error::io("write", &self.path))?;
        *end += extent.1;
        Ok(extent)
    }

    pub(crate) fn copy(&self, extents: &[Extent], mut to: &File) -> io::Result<()> {
        let file = self.file.lock();
        let mut buffer = Vec::new();
        for (offset, length) in extents {
            buffer.resize(usize::try_from(*length).map_err(io::Error::other)?, 0);
            file.0.read_exact_at(&mut buffer, *offset)?;
            to.write_all(&buffer)?;
        }
        Ok(())
    }
}

/// A line of a plane: a location, or a lane of it.
pub(crate) struct Line {
    pub(crate) location: LocationRef,
    pub(crate) head: XLine,
    /// Reuses the memory of the event before.
    event: XEvent,
    unspooled: Vec<u8>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) events: u64,
    pub(crate) outside: u64,
    pub(crate) regions: BTreeSet<RegionRef>,
    pub(crate) attributes: BTreeSet<AttributeRef>,
    pub(crate) texts: BTreeSet<StringRef>,
}

impl Line {
    /// Writes the lines of a location.
    pub(crate) fn write(
        source: &Source<'_>,
        selection: &Selection<'_>,
        location: LocationRef,
        window: Window,
        spool: &Spool,
    ) -> Result<Vec<Self>> {
        let mut lines: BTreeMap<Option<Lane>, Self> = BTreeMap::new();
        let mut written = Ok(());
        selection.slices(location, |slice| {
            let line = lines.entry(slice.lane).or_insert_with(|| Self::new(source.trace, location, slice.lane, window));
            if written.is_ok() {
                written = line.add(source.trace, slice, window, spool);
            }
        })?;
        written?;
        lines.values_mut().try_for_each(|line| line.spool(spool))?;
        Ok(lines.into_values().collect())
    }

    fn new(trace: &Trace, location: LocationRef, lane: Option<Lane>, window: Window) -> Self {
        let member = lane.and_then(|lane| lane.member(trace));
        Self {
            // The plane of a lane is that of its rank.
            location: member.unwrap_or(location),
            head: XLine {
                name: lane.map_or_else(|| trace.location_name(location), |lane| lane.name(trace)),
                timestamp_ns: signed(window.base_ns() - window.origin_ns),
                ..XLine::default()
            },
            event: XEvent::default(),
            unspooled: Vec::new(),
            extents: Vec::new(),
            events: 0,
            outside: 0,
            regions: BTreeSet::new(),
            attributes: BTreeSet::new(),
            texts: BTreeSet::new(),
        }
    }

    fn add(&mut self, trace: &Trace, slice: &Slice, window: Window, spool: &Spool) -> Result<()> {
        let base_ns = window.base_ns();
        let [start_ns, stop_ns] = [slice.start_ns, slice.stop_ns].map(|after_ns| window.since_1970(after_ns));
        if start_ns < base_ns || start_ns > window.to_ns {
            self.outside += 1;
            return Ok(());
        }
        self.describe(trace, slice);
        self.event.offset_ps = Some(picoseconds(start_ns - base_ns));
        self.event.duration_ps = picoseconds(stop_ns - start_ns);
        self.head.duration_ps = self.head.duration_ps.max(picoseconds(stop_ns - base_ns));
        self.event.append_to(&mut self.unspooled);
        self.events += 1;
        if self.unspooled.len() >= CHUNK_BYTES { self.spool(spool) } else { Ok(()) }
    }

    fn spool(&mut self, spool: &Spool) -> Result<()> {
        if !self.unspooled.is_empty() {
            self.extents.push(spool.append(&self.unspooled)?);
            self.unspooled.clear();
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.extents.iter().map(|(_, length)| length).sum()
    }

    fn describe(&mut self, trace: &Trace, slice: &Slice) {
        self.regions.insert(slice.region);
        let event = &mut self.event;
        event.metadata_id = region_id(slice.region);
        event.stats.clear();
        for (attribute, value) in &slice.attributes {
            self.attributes.insert(*attribute);
            if let AttributeValue::String(text) = value {
                self.texts.insert(*text);
            }
            event.stats.push(line_stat(trace, *attribute, *value));
        }
    }
}

/// The metadata id of a region; 0 means none.
pub(crate) fn region_id(region: RegionRef) -> i64 {
    i64::from(region.get()) + 1
}

pub(crate) fn attribute_id(attribute: AttributeRef) -> i64 {
    i64::from(attribute.get()) + 1
}

/// The metadata id of a text; attributes have smaller ones.
pub(crate) fn text_id(text: StringRef) -> u64 {
    1 << 32 | u64::from(text.get())
}

fn line_stat(trace: &Trace, attribute: AttributeRef, value: AttributeValue) -> XStat {
    let mut stat = XStat { metadata_id: attribute_id(attribute), ..XStat::default() };
    match (value, Value::new(trace, value)) {
        (AttributeValue::String(text), _) => stat.ref_value = Some(text_id(text)),
        (_, Value::Unsigned(number)) => stat.uint64_value = Some(number),
        (_, Value::Signed(number)) => stat.int64_value = Some(number),
        (_, Value::Real(number)) => stat.double_value = Some(number),
        (_, Value::Text(text)) => stat.str_value = Some(text.into_owned()),
    }
    stat
}

fn picoseconds(ns: u64) -> i64 {
    signed(ns.saturating_mul(1000))
}

/// The plane of a rank, numbered by the GPU's rank in the largest communicator.
pub(crate) struct Plane {
    id: i64,
    name: String,
    pub(crate) lines: Vec<Line>,
}

impl Plane {
    pub(crate) fn all(trace: &Trace, lines: Vec<Line>) -> Vec<Self> {
        let ranks = Ranks::from_trace(trace);
        let mut groups: BTreeMap<LocationGroupRef, Vec<Line>> = BTreeMap::new();
        for line in lines.into_iter().filter(|line| line.events > 0) {
            groups.entry(ranks.group(trace, line.location)).or_default().push(line);
        }
        let mut groups: Vec<(Vec<u32>, LocationGroupRef, Vec<Line>)> =
            groups.into_iter().map(|(group, lines)| (ranks.numbers(trace, group), group, lines)).collect();
        // Ranks first, then threads that work for several.
        nccl_events::sort::sort_by(&mut groups, |one, other| {
            (one.0.len() > 1, &one.0, one.1).cmp(&(other.0.len() > 1, &other.0, other.1))
        });
        let mut taken = BTreeSet::new();
        let planes = (1..).zip(groups).map(|(id, (numbers, group, mut lines))| {
            // The viewer stores a line's id in 32 bits, too few for a location's id.
            for (number, line) in (1..).zip(&mut lines) {
                (line.head.id, line.head.display_id) = (number, number);
            }
            let name = ranks.name(trace, group, &numbers);
            // Ranks of unrelated communicators can have equal names.
            let mut unique = name.clone();
            for number in 2.. {
                if taken.insert(unique.clone()) {
                    break;
                }
                unique = format!("{name} #{number}");
            }
            Self { id, name: unique, lines }
        });
        planes.collect()
    }

    pub(crate) fn begin(&self, trace: &Trace, space: &mut Vec<u8>) {
        let regions: BTreeSet<RegionRef> = self.lines.iter().flat_map(|line| line.regions.iter().copied()).gather();
        let attributes: BTreeSet<AttributeRef> =
            self.lines.iter().flat_map(|line| line.attributes.iter().copied()).gather();
        let events = regions.into_iter().map(|region| {
            let id = region_id(region);
            (id, XEventMetadata { id, name: trace.region_name(region) })
        });
        let stats = attributes.into_iter().map(|attribute| {
            let id = attribute_id(attribute);
            let definition = trace.definitions.attributes.get(&attribute);
            let name = definition.and_then(|attribute| trace.definitions.string(attribute.name)).unwrap_or_default();
            (id, XStatMetadata { id, name: name.to_owned() })
        });
        let texts: BTreeSet<StringRef> = self.lines.iter().flat_map(|line| line.texts.iter().copied()).gather();
        let texts = texts.into_iter().map(|text| {
            let id = signed(text_id(text));
            (id, XStatMetadata { id, name: trace.definitions.string(text).unwrap_or_default().to_owned() })
        });
        let plane = XPlane {
            id: self.id,
            name: self.name.clone(),
            event_metadata: events.gather(),
            stat_metadata: stats.chain(texts).gather(),
            stats: Vec::new(),
        };
        begin_plane(&plane, self.lines.iter().map(|line| line_bytes(&line.head, line.bytes())).sum(), space);
    }
}

/// The ranks of each GPU, and each process's GPUs that have ranks.
struct Ranks {
    members: BTreeMap<LocationGroupRef, Vec<(CommRef, u32)>>,
    of_process: BTreeMap<LocationGroupRef, Vec<LocationGroupRef>>,
}

impl Ranks {
    fn from_trace(trace: &Trace) -> Self {
        let mut found = Self { members: BTreeMap::new(), of_process: BTreeMap::new() };
        for location in trace.definitions.locations.keys() {
            let is_rank = trace.location_kind(*location) == Some(LocationKind::Communicator);
            if let Some(member) = trace.rank_of(*location).filter(|_| is_rank) {
                found.members.entry(trace.group(*location)).or_default().push(member);
            }
        }
        for group in found.members.keys() {
            found.of_process.entry(trace.process(*group)).or_default().push(*group);
        }
        found
    }

    /// The group whose plane shows a location: a GPU, or the process if it has several GPUs.
    fn group(&self, trace: &Trace, location: LocationRef) -> LocationGroupRef {
        let group = trace.group(location);
        if self.members.contains_key(&group) {
            return group;
        }
        let process = trace.process(group);
        if let Some([only]) = self.of_process.get(&process).map(Vec::as_slice) {
            return *only;
        }
        let member = trace.member_of(location).map(|member| trace.group(member));
        // A proxy thread also works for ranks of other processes.
        member.filter(|gpu| trace.process(*gpu) == process).unwrap_or(group)
    }

    /// The ranks of a group, each in its GPU's largest communicator.
    fn numbers(&self, trace: &Trace, group: LocationGroupRef) -> Vec<u32> {
        let one = [group];
        let gpus = self.of_process.get(&group).map_or(&one[..], Vec::as_slice);
        let mut numbers: Vec<u32> = gpus.iter().filter_map(|gpu| self.number(trace, *gpu)).collect();
        nccl_events::sort::sort(&mut numbers);
        numbers
    }

    fn number(&self, trace: &Trace, gpu: LocationGroupRef) -> Option<u32> {
        let members = self.members.get(&gpu)?.iter();
        members.max_by_key(|(comm, _)| (trace.members(*comm).len(), Reverse(*comm))).map(|(_, rank)| *rank)
    }

    fn name(&self, trace: &Trace, group: LocationGroupRef, numbers: &[u32]) -> String {
        let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
        match numbers {
            [] => format!("{CUSTOM_DEVICE}NCCL {}", trace.group_name(group)),
            [_] => format!("{CUSTOM_DEVICE}NCCL rank {}", text.join("")),
            _ => format!("{CUSTOM_DEVICE}NCCL ranks {}", text.join(", ")),
        }
    }
}

/// The profile of a host: its plane "Task Environment" states when it began and ended, in ns since 1970. Times of its
/// planes are relative to the start.
pub(crate) struct HostProfile {
    pub(crate) begin_ns: u64,
    /// `u64::MAX` if the profile does not state it.
    pub(crate) end_ns: u64,
    /// Names of its host: those in the profile, and the file's name.
    names: Vec<String>,
}

impl HostProfile {
    pub(crate) const fn new(begin_ns: u64, end_ns: u64) -> Self {
        Self { begin_ns, end_ns, names: Vec::new() }
    }

    /// Reads a profile of at most `most_bytes`; its events are skipped.
    pub(crate) fn read(path: &Path, most_bytes: u64) -> Result<Self> {
        let mut bytes = Vec::new();
        let file = regular_files::open_named(path, most_bytes);
        let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(Error::io("read", path))?;
        let refused = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let space = XSpace::decode(bytes.as_slice())
            .map_err(|error| refused(&format!("not an XSpace (NAME.xplane.pb): {error}")))?;
        let mut environments = space.planes.iter().filter(|plane| plane.name == TASK_ENVIRONMENT);
        let begin_ns =
            environments.clone().find_map(|plane| host_stat(plane, PROFILE_START_TIME)).ok_or_else(|| {
                refused(
                    "no stat profile_start_time in a plane \"Task Environment\", so its clock cannot be related to the \
                 archive's; export without --into, to a second file in the profile's directory",
                )
            })?;
        let end_ns = environments.find_map(|plane| host_stat(plane, PROFILE_STOP_TIME)).unwrap_or(u64::MAX);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".xplane.pb").unwrap_or(&name).to_owned();
        Ok(Self { begin_ns, end_ns, names: space.hostnames.into_iter().chain([name]).collect() })
    }

    /// From its start to its end, or to the archive's end.
    pub(crate) fn span_ns(&self, archive_end_ns: u64) -> [i128; 2] {
        let end_ns = if self.end_ns == u64::MAX { archive_end_ns.max(self.begin_ns) } else { self.end_ns };
        [self.begin_ns.into(), end_ns.into()]
    }

    /// The host it was taken on: the only host, or the one that it names.
    pub(crate) fn host(
        &self,
        trace: &Trace,
        hosts: &BTreeSet<SystemTreeNodeRef>,
        path: &Path,
    ) -> Result<SystemTreeNodeRef> {
        let name_of = |host: SystemTreeNodeRef| trace.node_name(host).unwrap_or_default();
        let is_named = |host: &SystemTreeNodeRef| self.names.iter().any(|name| short(name) == short(name_of(*host)));
        let named: Vec<SystemTreeNodeRef> = hosts.iter().copied().filter(is_named).collect();
        let all: Vec<SystemTreeNodeRef> = hosts.iter().copied().collect();
        match (all.as_slice(), named.as_slice()) {
            ([only], _) | (_, [only]) => Ok(*only),
            _ => {
                const SHOWN: usize = 4;
                let mut names: Vec<&str> = all.iter().map(|host| name_of(*host)).take(SHOWN).collect();
                if all.len() > SHOWN {
                    names.push("…");
                }
                Err(Error::Refused(format!(
                    "{}: it does not say which of the archive's {} hosts ({}) it was taken on, and each has its own \
                    clock: name it HOST.xplane.pb, or select ranks of one host with --rank",
                    path.display(),
                    all.len(),
                    names.join(", ")
                )))
            }
        }
    }

    /// A space with only the plane that states start and end.
    pub(crate) fn space(&self) -> Vec<u8> {
        let names = [(1, PROFILE_START_TIME, self.begin_ns), (2, PROFILE_STOP_TIME, self.end_ns)];
        let metadata = names.map(|(id, name, _)| (id, XStatMetadata { id, name: name.to_owned() }));
        let stats = names.map(|(metadata_id, _, time_ns)| XStat {
            metadata_id,
            uint64_value: Some(time_ns),
            ..XStat::default()
        });
        let plane = XPlane {
            name: TASK_ENVIRONMENT.to_owned(),
            stat_metadata: BTreeMap::from(metadata),
            stats: stats.to_vec(),
            ..XPlane::default()
        };
        XSpace { planes: vec![plane], ..XSpace::default() }.encode_to_vec()
    }
}

/// The host name without its domain; an address unchanged.
fn short(name: &str) -> &str {
    match name.split_once('.') {
        Some((host, _)) if !host.starts_with(|first: char| first.is_ascii_digit()) => host,
        _ => name,
    }
}

fn host_stat(plane: &XPlane, name: &str) -> Option<u64> {
    let (id, _) = plane.stat_metadata.iter().find(|(_, metadata)| metadata.name == name)?;
    let stat = plane.stats.iter().find(|stat| stat.metadata_id == *id)?;
    stat.uint64_value.or_else(|| u64::try_from(stat.int64_value?).ok())
}
