//! Reads processes' journals for `print` and `export`, and selects what is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

use crate::command_line::{AvailableValues, requested};
use crate::print::values;
use crate::print::values::Moment;
use crate::select::is_meant;
use crate::{archives, output};
use analysis::units;
use analysis::units::plural;
use anyhow::{Context as _, Error, Result, bail};
use clap::Args;
use clocks::ticks::{Calibration, HostClock};
use jiff::SignedDuration;
use journal::clock::ClockPair;
use journal::format::{CommRecord, Record, RecordBody, Records, Symbol};
use journal::part::{JOURNAL, PARTS, PROCESS, read_process};
use journal::reader::{Journal, Outcome, Segments};
use nccl_events::sort::Gather;
use nccl_events::{Kind, Start, StateArgs};
use regular_files::refusing_directory;
use rustc_hash::FxHashSet;

pub(crate) struct Journals {
    pub(crate) found: Vec<PathBuf>,
    pub(crate) unread: Vec<Error>,
}

/// The journals at `path`: of a part, of all parts of a job, or `path` itself if it is a journal's directory.
pub(crate) fn journals_of(path: &Path) -> Result<Journals> {
    let has_parts = archives::has_parts(path)?;
    let one = |path: PathBuf| Ok(Journals { found: vec![path], unread: Vec::new() });
    if path.join("0.0").is_file() {
        return one(path.to_owned());
    }
    if path.join(JOURNAL).is_dir() {
        return one(path.join(JOURNAL));
    }
    let parts = if has_parts { path.join(PARTS) } else { path.to_owned() };
    let mut found = Vec::new();
    let mut unread = Vec::new();
    let entries = if parts.is_dir() { Some(fs::read_dir(&parts).with_context(|| reading(&parts))?) } else { None };
    for entry in entries.into_iter().flatten() {
        match journal_of(&entry.with_context(|| reading(&parts))?.path()) {
            Ok(journal) => found.extend(journal),
            Err(error) => unread.push(error),
        }
    }
    nccl_events::sort::sort(&mut found);
    if !found.is_empty() {
        return Ok(Journals { found, unread });
    }
    if path.join(PROCESS).is_file() || archives::is_archive(path) || !unread.is_empty() {
        bail!(
            "{}: no journals: they are removed after the archive is written, unless NCCL_OTF2_KEEP_JOURNAL=1 or \
            `nccl-otf2 run --keep-journal` keeps them",
            path.display()
        );
    }
    bail!("{}: no archive, no directory of a process's part, and no journal", path.display())
}

fn reading(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The journal of a part; `None` if there is no part.
fn journal_of(part: &Path) -> Result<Option<PathBuf>> {
    let journal = part.join(JOURNAL);
    match journal.metadata() {
        Ok(data) if data.is_dir() => Ok(Some(journal)),
        Ok(_) => bail!("{} is not a directory: its process is left out", journal.display()),
        Err(error) if error.kind() != ErrorKind::NotFound && part.is_dir() => {
            let refusing = refusing_directory(&journal, &error);
            Err(error).with_context(|| format!("{}: {} is left out", refusing.display(), part.display()))
        }
        Err(_) => match journal.read_link() {
            Ok(target) => bail!(
                "{}: the journal is in {}, which does not exist here: its process is left out",
                part.display(),
                target.display()
            ),
            Err(_) if part.join(PROCESS).is_file() => {
                bail!("{}: no journal, or it was removed: its process is left out", part.display())
            }
            Err(_) => Ok(None),
        },
    }
}

/// Sets the start of all journals to that of the first, each on its own clock. Processes of a boot share a clock;
/// between hosts, the system clocks are not corrected, just as in archives.
pub(crate) fn share_beginning(processes: &mut [Process]) {
    // For each boot, the beginning of its first journal, and that one's CLOCK_REALTIME - CLOCK_MONOTONIC.
    let mut offsets: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for process in processes.iter() {
        let found = (process.begin_ns, process.realtime_offset_ns);
        let first = offsets.entry(process.boot_id.clone()).or_insert(found);
        *first = (*first).min(found);
    }
    let offset = |process: &Process| offsets.get(&process.boot_id).map_or(0, |(_, offset)| *offset);
    let begins = processes.iter().map(|process| process.begin_ns.saturating_add_signed(offset(process)));
    let Some(begin) = begins.min() else { return };
    for process in processes {
        process.begin_ns = begin.saturating_sub_signed(offset(process));
    }
}

#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) context: u64,
    pub(crate) begin: Moment,
    pub(crate) end_ns: u64,
    pub(crate) record: CommRecord,
    pub(crate) is_wanted: bool,
}

#[derive(Debug)]
pub(crate) struct Finalize {
    pub(crate) context: u64,
    pub(crate) begin: Moment,
    pub(crate) end_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) id: u64,
    pub(crate) context: u64,
}

/// What a process's journal has, without its events: communicators, GPU records, clocks, losses.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) path: PathBuf,
    pub(crate) pid: u32,
    /// The kernel's boot id, empty if unknown: journals with the same id share a clock.
    pub(crate) boot_id: String,
    /// CLOCK_REALTIME - CLOCK_MONOTONIC when recording began.
    pub(crate) realtime_offset_ns: i64,
    /// Time of the first record of all journals read together ([`share_beginning`]).
    pub(crate) begin_ns: u64,
    /// Time of the last record; `None` if an event has not ended.
    end_ns: Option<u64>,
    ranks: BTreeSet<i32>,
    pub(crate) comms: Vec<Comm>,
    /// Communicators by context, also those whose beginning a flight recording removed.
    known: BTreeMap<u64, CommRecord>,
    pub(crate) finalizes: Vec<Finalize>,
    pub(crate) gpu: Vec<values::GpuEntry>,
    pub(crate) ranges: Vec<values::RangeEntry>,
    pub(crate) launches: Vec<Launch>,
    pub(crate) outcome: Outcome,
    pub(super) clock: HostClock,
    pub(super) segments: Segments,
}

impl Process {
    /// Reads the journal in this directory without keeping events, which [`crate::print::stream::Events`] reads.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let journal = Journal::open(path).context("cannot read the journal")?;
        let mut found = Survey::default();
        let (tick_source, pid, segments) = (journal.tick_source, journal.process_id, journal.segments());
        let outcome = journal.read(&mut found).context("cannot read the journal")?;
        let Survey { mut records, mut pairs, launches, first_ticks, last_ticks, open, ranks, .. } = found;
        // A stable sort keeps the order of each thread's records.
        records.sort_by_key(|(_, record)| record.ticks);
        nccl_events::sort::sort_by_key(&mut pairs, |pair| pair.ticks);
        let clock = HostClock::new(tick_source, &pairs);
        let offset = |pair: &ClockPair| pair.realtime_ns.checked_signed_diff(pair.monotonic_ns);
        let process = path.parent().map(|part| read_process(part).0).unwrap_or_default();
        let mut read = Self {
            path: path.to_owned(),
            pid,
            boot_id: process.boot_id,
            realtime_offset_ns: pairs.first().and_then(offset).unwrap_or(0),
            begin_ns: first_ticks.map_or(0, |ticks| clock.nanoseconds(ticks)),
            end_ns: open.is_empty().then(|| clock.nanoseconds(last_ticks)),
            ranks,
            comms: Vec::new(),
            known: BTreeMap::new(),
            finalizes: Vec::new(),
            gpu: Vec::new(),
            ranges: Vec::new(),
            launches,
            outcome,
            clock,
            segments,
        };
        let gpu_records = records.iter().filter(|(_, record)| matches!(record.body, RecordBody::Gpu(_)));
        let ticks: Vec<u64> = gpu_records.map(|(_, record)| record.ticks).collect();
        for (tid, record) in records {
            read.take(tid, record);
        }
        values::place(&mut read.gpu, &ticks, &read.clock);
        read.gpu.sort_by_key(|entry| entry.when.ns);
        // In reverse, so that the first communicator of a context stays: a later one with the same is a mistake.
        for comm in read.comms.iter().rev() {
            read.known.insert(comm.context, comm.record.clone());
        }
        Ok(read)
    }

    fn take(&mut self, tid: u32, record: Record) {
        let when = Moment { ns: self.clock.nanoseconds(record.ticks), tid };
        let record_id = record.id;
        match record.body {
            // Of a communicator whose beginning may be removed; a `CommInit` that is still there replaces it.
            RecordBody::CommKnown(comm) => drop(self.known.insert(record.id, comm)),
            RecordBody::CommInit(comm) => self.comms.push(Comm {
                context: record.id,
                begin: when,
                end_ns: self.clock.nanoseconds(comm.end_ticks),
                record: comm,
                is_wanted: true,
            }),
            RecordBody::CommFinalize { end_ticks } => self.finalizes.push(Finalize {
                context: record.id,
                begin: when,
                end_ns: self.clock.nanoseconds(end_ticks),
            }),
            RecordBody::Gpu(gpu) => {
                self.gpu.push(values::GpuEntry { when, duration_ns: None, id: record.id, record: gpu })
            }
            RecordBody::Range(record) => self.ranges.push(values::RangeEntry { when, id: record_id, record }),
            _ => {}
        }
    }

    pub(crate) fn comm(&self, context: u64) -> Option<&CommRecord> {
        self.known.get(&context)
    }

    /// Filters everything but events. Communicators are filtered by rank and id only.
    pub(crate) fn keep(&mut self, filter: &Filter) {
        for comm in &mut self.comms {
            comm.is_wanted = wants(filter, &self.outcome, &comm.record);
        }
        let (known, outcome) = (&self.known, &self.outcome);
        let wanted = |context: u64| known.get(&context).map(|comm| wants(filter, outcome, comm));
        self.finalizes.retain(|call| wanted(call.context).unwrap_or(true));
        // A GPU record belongs to the rank of its launch or communicator. One without (PXN) is kept if all are wanted.
        let foreign = filter.wants_comm("", None) && filter.wants_rank(None);
        let launches = self.launches.iter().filter(|_| !self.gpu.is_empty());
        let contexts: BTreeMap<u64, u64> = launches.map(|launch| (launch.id, launch.context)).collect();
        let begin_ns = self.begin_ns;
        self.gpu.retain(|entry| {
            let context = contexts.get(&entry.id).copied().unwrap_or(entry.id);
            let ns = entry.when.ns;
            let end_ns = ns.saturating_add(entry.duration_ns.unwrap_or(0));
            wanted(context).unwrap_or(foreign)
                && filter.wants_kind(values::GPU_KIND)
                && filter.wants_time(begin_ns, ns, Some(end_ns))
        });
        self.ranges.retain(|entry| {
            foreign
                && filter.wants_kind(values::RANGE_KIND)
                && filter.wants_time(begin_ns, entry.when.ns, Some(entry.when.ns))
        });
        self.launches.retain(|launch| wanted(launch.context).unwrap_or(foreign));
    }

    /// Whether events of a communicator are wanted. If the communicator is unknown, the event's rank decides.
    pub(super) fn wants(&self, filter: &Filter, context: u64, rank: i32) -> bool {
        match self.comm(context) {
            Some(comm) => wants(filter, &self.outcome, comm),
            None => filter.wants_comm("", None) && filter.wants_rank(Some(rank.into())),
        }
    }

    pub(crate) fn summary(self) -> Self {
        Self { gpu: Vec::new(), ranges: Vec::new(), launches: Vec::new(), ..self }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.outcome.problems.is_empty() && self.outcome.losses.total() == 0
    }

    /// Prints what is missing or doubtful. `orphan_stops` counts stops of events that the journal lacks.
    pub(crate) fn remark(&self, orphan_stops: u64) {
        self.outcome.problems.iter().for_each(output::note);
        let path = self.path.display();
        let lost = self.outcome.losses.total();
        if lost > 0 {
            let calls = plural(lost, "call was", "calls were");
            output::note(format_args!("{path}: {calls} not recorded"));
        }
        if orphan_stops > 0 {
            let stops = plural(orphan_stops, "stop", "stops");
            output::note(format_args!("{path}: {stops} of events that are not in the journal or had already stopped"));
        }
        if self.clock.quality.calibration == Calibration::Assumed {
            output::note(format_args!("{path}: fewer than two clock readings: its times are ticks, not nanoseconds"));
        }
    }
}

fn wants(filter: &Filter, outcome: &Outcome, comm: &CommRecord) -> bool {
    let name = outcome.symbols.text(comm.name);
    filter.wants_comm(name, Some(comm.comm_id)) && filter.wants_rank(Some(comm.rank.into()))
}

/// What the journals contain, for the message about a filter that matches nothing.
pub(crate) fn present(processes: &[Process], filter: &Filter) -> Result<AvailableValues> {
    let comms = || processes.iter().flat_map(|process| process.known.values().map(move |comm| (process, comm)));
    let name = |process: &Process, comm: &CommRecord| process.outcome.symbols.text(comm.name).to_owned();
    let has_comm = |process: &Process, comm: &CommRecord, filter: &Filter| {
        filter.wants_comm(&name(process, comm), Some(comm.comm_id))
    };
    let ranks = comms().filter(|(process, comm)| has_comm(process, comm, filter)).map(|(_, comm)| comm.rank);
    // Events of a communicator whose creation was not recorded have a rank, too.
    let event_ranks = processes.iter().flat_map(|process| &process.ranks).copied();
    let ranks = ranks.chain(event_ranks.filter(|_| filter.wants_comm("", None)));
    let ends: Option<Vec<u64>> = processes.iter().map(|process| process.end_ns).collect();
    let begin_ns = processes.iter().map(|process| process.begin_ns).min().unwrap_or(0);
    let present = AvailableValues {
        what: "the journal",
        communicators: comms()
            .map(|(process, comm)| match name(process, comm) {
                name if name.is_empty() => format!("{:#x}", comm.comm_id),
                name => name,
            })
            .gather(),
        ranks: ranks.map(i64::from).gather(),
        in_job: None,
        functions: BTreeSet::new(),
        begin_ns,
        end_ns: ends.and_then(|ends| ends.into_iter().max()),
    };
    filter.refuse_absent(&present, |single| comms().any(|(process, comm)| has_comm(process, comm, single)))?;
    Ok(present)
}

#[derive(Default)]
struct Survey {
    records: Vec<(u32, Record)>,
    pairs: Vec<ClockPair>,
    threads: BTreeMap<u16, u32>,
    launches: Vec<Launch>,
    first_ticks: Option<u64>,
    last_ticks: u64,
    open: FxHashSet<u64>,
    ranks: BTreeSet<i32>,
}

impl Survey {
    fn note_ticks(&mut self, ticks: u64) {
        self.last_ticks = ticks.max(self.last_ticks);
        self.first_ticks = Some(self.first_ticks.map_or(ticks, |first| first.min(ticks)));
    }
}

impl Records for Survey {
    fn record(&mut self, record: Record) {
        match record.body {
            RecordBody::ThreadBegin { thread_id, .. } => drop(self.threads.insert(record.slot, thread_id)),
            RecordBody::ThreadEnd => {}
            RecordBody::ClockPair { monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks } => {
                let ticks = record.ticks;
                self.pairs.push(ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks });
            }
            _ => {
                self.note_ticks(record.ticks);
                self.records.push((self.threads.get(&record.slot).copied().unwrap_or(0), record));
            }
        }
    }

    fn start(&mut self, _slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.note_ticks(ticks);
        self.open.insert(id);
        self.ranks.insert(start.rank);
        if matches!(start.body.kind(), Kind::KernelLaunch | Kind::CeColl) {
            self.launches.push(Launch { id, context: start.context });
        }
    }

    fn stop(&mut self, _slot: u16, ticks: u64, id: u64) {
        self.open.remove(&id);
        self.note_ticks(ticks);
    }

    fn state(&mut self, _slot: u16, ticks: u64, _id: u64, _state: (u32, StateArgs)) {
        self.note_ticks(ticks);
    }
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only of these communicators: by name or id (hexadecimal with 0x, or decimal)
    #[arg(long, value_name = "COMM", value_delimiter = ',')]
    comm: Vec<String>,

    /// Only of these ranks (of their communicators), such as 3 or 0,4-7
    #[arg(long, value_name = "RANK", value_delimiter = ',', allow_negative_numbers = true)]
    rank: Vec<RankRange>,

    /// Only of these kinds, such as Coll,ProxyStep
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,

    /// Only what runs at or after this time: 1.5s, 20ms, 300us or 5ns after the beginning, or @TIME on the clock
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<Time>,

    /// Only what runs at or before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<Time>,

    /// Print at most this many lines
    #[arg(long, value_name = "LINES")]
    pub(crate) limit: Option<u64>,
}

/// One rank, or those from one to another: `3`, `4-7`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankRange(RangeInclusive<i64>);

impl RankRange {
    pub(crate) fn ranks(&self) -> RangeInclusive<i64> {
        self.0.clone()
    }
}

impl FromStr for RankRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A number may begin with a minus: the rank is -1 where NCCL does not know it.
        let ends = text.match_indices('-').find(|(at, _)| *at > 0);
        let (first, last) = ends.map_or((text, text), |(at, _)| (&text[..at], &text[at + 1..]));
        let ends = first.parse().ok().zip(last.parse().ok());
        let range = ends.map(|(first, last): (i64, i64)| first..=last).filter(|range| !range.is_empty());
        range.map(Self).ok_or(
            "is neither a rank such as 3 nor a range such as 4-7; separate several with commas: \
            0,2,4-7",
        )
    }
}

impl Display for RankRange {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(to, "{first}") } else { write!(to, "{first}-{last}") }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Nanoseconds from the start.
    Relative(u64),
    /// Nanoseconds on the recording's clock.
    Absolute(u64),
}

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected a time such as 1.5s, 20ms, 300us or 5ns after the beginning, or @TIME \
            since 1970 in ns";
        if let Some(digits) = text.strip_prefix('@') {
            return digits.parse().map(Self::Absolute).map_err(|_| WRONG);
        }
        let after: SignedDuration = text.parse().map_err(|_| WRONG)?;
        let after = u64::try_from(after.as_nanos());
        after.map(Self::Relative).map_err(|_| "a time before the beginning: times count from there")
    }
}

impl Display for Time {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(ns) => write!(to, "{}", units::time(*ns)),
            Self::Absolute(ns) => write!(to, "@{ns}"),
        }
    }
}

impl Time {
    pub(crate) fn absolute_ns(self, begin_ns: u64) -> u64 {
        match self {
            Self::Relative(ns) => begin_ns.saturating_add(ns),
            Self::Absolute(ns) => ns,
        }
    }
}

impl Filter {
    pub(crate) fn new(comm: &[String], rank: &[RankRange], (from, to): (Option<Time>, Option<Time>)) -> Self {
        Self { comm: comm.to_vec(), rank: rank.to_vec(), from, to, ..Self::default() }
    }

    pub(crate) const fn is_about_time(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Whether this communicator is wanted; an unknown communicator has no name and no id.
    pub(crate) fn wants_comm(&self, name: &str, id: Option<u64>) -> bool {
        self.comm.is_empty() || self.comm.iter().any(|wanted| is_meant(wanted, name, id))
    }

    pub(crate) fn is_about_events(&self) -> bool {
        !(self.comm.is_empty() && self.rank.is_empty() && self.kind.is_empty())
    }

    pub(crate) fn wants_rank(&self, rank: Option<i64>) -> bool {
        self.rank.is_empty() || rank.is_some_and(|rank| self.rank.iter().any(|wanted| wanted.0.contains(&rank)))
    }

    pub(crate) fn wants_kind(&self, kind: &str) -> bool {
        let plain = |name: &str| name.strip_prefix("ncclProfile").unwrap_or(name).to_ascii_lowercase();
        self.kind.is_empty() || self.kind.iter().any(|wanted| plain(wanted) == plain(kind))
    }

    /// Whether the interval overlaps the wanted one. `last_ns` is `None` if the interval has no end.
    pub(crate) fn wants_time(&self, begin_ns: u64, first_ns: u64, last_ns: Option<u64>) -> bool {
        let is_late = self.to.is_some_and(|to| first_ns > to.absolute_ns(begin_ns));
        !is_late && self.from.zip(last_ns).is_none_or(|(from, last)| last >= from.absolute_ns(begin_ns))
    }

    /// Refuses filter values that the recording lacks. `has_comm`: whether a communicator matches the filter.
    pub(crate) fn refuse_absent(&self, present: &AvailableValues, has_comm: impl Fn(&Self) -> bool) -> Result<()> {
        let single = |comm: &str| Self { comm: vec![comm.to_owned()], ..Self::default() };
        present.has_communicators(&self.comm, |comm| has_comm(&single(comm)))?;
        present.has_ranks(self.rank.iter().flat_map(RankRange::ranks))?;
        let [from_ns, to_ns] = [self.from, self.to].map(|time| time.map(|time| time.absolute_ns(present.begin_ns)));
        present.has_time(from_ns, to_ns)
    }

    /// Fails if the filters together match nothing; `found` is the number of matches.
    pub(crate) fn refuse_nothing(&self, present: &AvailableValues, found: u64) -> Result<()> {
        let time = |flag: &str, time: Option<Time>| time.map(|time| format!("{flag} {time}"));
        let filters = [
            requested("--comm", &self.comm),
            requested("--rank", &self.rank),
            requested("--kind", &self.kind),
            time("--from", self.from),
            time("--to", self.to),
        ];
        // With `--limit 0` nothing is printed on purpose, which is no reason to refuse.
        present.refuse_nothing(filters, if self.limit == Some(0) { 1 } else { found })
    }

    pub(crate) fn unknown_kinds(&self, exists: impl Fn(&Self) -> bool) -> Vec<&str> {
        let single = |kind: &&String| Self { kind: vec![(*kind).clone()], ..Self::default() };
        self.kind.iter().filter(|kind| !exists(&single(kind))).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_or_ranges() {
        for (text, ranks) in [("3", 3..=3), ("4-7", 4..=7), ("-1", -1..=-1), ("-1-2", -1..=2)] {
            assert_eq!(text.parse(), Ok(RankRange(ranks)), "{text}");
            assert_eq!(text.parse::<RankRange>().expect(text).to_string(), text);
        }
        for wrong in ["", "-", "x", "7-4", "4-", "1-2-3", "1,2"] {
            wrong.parse::<RankRange>().expect_err(wrong);
        }
    }

    #[test]
    fn times_are_exact() {
        for (text, time) in [
            ("1.5s", Time::Relative(1_500_000_000)),
            ("20ms", Time::Relative(20_000_000)),
            ("0.001us", Time::Relative(1)),
            ("7ns", Time::Relative(7)),
            ("@123", Time::Absolute(123)),
        ] {
            assert_eq!(text.parse(), Ok(time), "{text}");
        }
        for wrong in ["", "5", "s", "1.5ns", "-1s", "@x", "1.2.3s"] {
            wrong.parse::<Time>().expect_err(wrong);
        }
    }
}
