//! The properties of an archive (`docs/REFERENCE.md` §3), their grammars, and what an archive lacks by its properties.
//! The type of a property is its grammar, and also defines how values are merged.

use std::collections::{BTreeMap, BTreeSet};

use crate::Kind;
use crate::schema::counts::{Counts, GpuCounts};
use crate::sort::Gather;

/// A property of an archive: name and value.
pub type Property = (String, String);

/// OTF2's property by which a writer guarantees that no communication is missing, or says that some is.
pub const COMMUNICATION_COMPLETE: &str = "OTF2::MPI_COMMUNICATION_COMPLETE";

/// The prefix of all property names of this project.
const PREFIX: &str = "NCCL::";

macro_rules! properties {
    (
        $($(#[doc = $doc:literal])* $field:ident $text:literal $grammar:ident;)+
        => listed { $($listed:ident $number:literal $list:literal;)+ }
    ) => {
        /// All properties of an archive.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "`docs/REFERENCE.md` describes the properties")]
        pub struct Statements {
            $($(#[doc = $doc])* pub $field: $grammar,)+
            $(pub $listed: Listed,)+
            /// `NCCL::COUNT::…`: events that were seen and what became of them.
            pub counts: Counts,
            /// `NCCL::GPU::…`: counters of GPU work.
            pub gpu_counts: GpuCounts,
            /// `NCCL::CHAIN::…`: calls that did not reach the chained profiler plugins.
            pub chain_counts: BTreeMap<String, u64>,
            /// `NCCL::SCOREP::…`: what was forwarded to Score-P and what was not.
            pub scorep_counts: BTreeMap<String, u64>,
            /// Properties that violate their grammar.
            pub bad: Vec<Property>,
            /// Properties that this version does not know.
            pub unknown: Vec<Property>,
        }

        impl Statements {
            fn read_one(&mut self, name: &str, value: &str) -> ReadOutcome {
                match name {
                    $($text => read(&mut self.$field, value),)+
                    $($number => read(&mut self.$listed.number, value), $list => read(&mut self.$listed.lines, value),)+
                    _ => self.read_count(name, value),
                }
            }

            fn write_single(&self, mut write: impl FnMut(&str, String)) {
                $(write($text, self.$field.text());)+
                $(
                    write($number, self.$listed.number.text());
                    write($list, self.$listed.lines.text());
                )+
            }

            fn merge_single(&mut self, other: &Self) {
                $(self.$field.merge(&other.$field);)+
                $(self.$listed.merge_by(&other.$listed, |line| line);)+
            }

            /// The names of all properties except counters.
            pub const NAMES: &[&str] = &[$($text,)+ $($number, $list,)+];
        }
    };
}

properties! {
    parts_fingerprint "NCCL::PARTS::FINGERPRINT" NotMerged;
    parts_left_out "NCCL::PARTS_LEFT_OUT" Lines;
    level "NCCL::LEVEL" Lines;
    version "NCCL::VERSION" Lines;
    library "NCCL::LIBRARY" Lines;
    table "NCCL::TABLE" Lines;
    events "NCCL::EVENTS" Lines;
    steps "NCCL::STEPS" Lines;
    command "NCCL::COMMAND" Lines;
    job "NCCL::JOB" Lines;
    launcher "NCCL::LAUNCHER" Lines;
    node_names "NCCL::NODE_NAMES" Lines;
    plugin_version "NCCL::PLUGIN_VERSION" Lines;
    unreported "NCCL::UNREPORTED" Lines;
    writer_version "NCCL::WRITER_VERSION" Lines;
    clock_source "NCCL::CLOCK::SOURCE" Lines;
    clock_calibration "NCCL::CLOCK::CALIBRATION" Lines;
    clock_residual_ns "NCCL::CLOCK::RESIDUAL_NS" Most;
    /// Maximum error of a process's ticks against its host's clock. On a process: against the archive's clock.
    clock_uncertainty_ns "NCCL::CLOCK::UNCERTAINTY_NS" Most;
    gpu_clock_bounded "NCCL::GPU_CLOCK::BOUNDED::RANKS" Sum;
    gpu_clock_bounded_ns "NCCL::GPU_CLOCK::BOUNDED::RESIDUAL_NS" Most;
    gpu_clock_piecewise "NCCL::GPU_CLOCK::PIECEWISE::RANKS" Sum;
    gpu_clock_piecewise_ns "NCCL::GPU_CLOCK::PIECEWISE::RESIDUAL_NS" Most;
    gpu_clock_upper_only "NCCL::GPU_CLOCK::UPPER_ONLY::RANKS" Sum;
    gpu_clock_upper_only_ns "NCCL::GPU_CLOCK::UPPER_ONLY::RESIDUAL_NS" Most;
    gpu_clock_inconsistent "NCCL::GPU_CLOCK::INCONSISTENT::RANKS" Sum;
    gpu_clock_inconsistent_ns "NCCL::GPU_CLOCK::INCONSISTENT::RESIDUAL_NS" Most;
    gpu_clock_list "NCCL::GPU_CLOCK::LIST" Lines;
    alignment_constraints "NCCL::CLOCK::ALIGNMENT::CONSTRAINTS" Sum;
    alignment_violations "NCCL::CLOCK::ALIGNMENT::VIOLATIONS" Sum;
    alignment_worst_violation_ns "NCCL::CLOCK::ALIGNMENT::WORST_VIOLATION_NS" Most;
    alignment_groups "NCCL::CLOCK::ALIGNMENT::GROUPS" Sum;
    alignment_uncorrected "NCCL::CLOCK::ALIGNMENT::UNCORRECTED" Sum;
    alignment_uncertainty_ns "NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS" Most;
    /// Events that began, by the numbers in their ids. Missing in recordings of earlier versions, and in parts that
    /// were written while their process ran.
    started "NCCL::COUNT::STARTED" KnownSum;
    records "NCCL::RECORDS" Sum;
    ranks_missing "NCCL::RANKS_MISSING" Sum;
    /// Those of the missing ranks that have no location.
    ranks_unlocated "NCCL::RANKS_UNLOCATED" Sum;
    collectives_unmatched "NCCL::COLLECTIVES_UNMATCHED" Sum;
    ranks_claimed_twice "NCCL::RANKS_CLAIMED_TWICE" Sum;
    gpu_backend "NCCL::GPU::BACKEND" Lines;
    gpu_notices "NCCL::GPU::NOTICES" Lines;
    gpu_devices "NCCL::GPU::DEVICES" Sum;
    gpu_clocks_residual_ns "NCCL::GPU::CLOCKS::RESIDUAL_NS" Most;
    gpu_clocks_uncertainty_ns "NCCL::GPU::CLOCKS::UNCERTAINTY_NS" Most;
    gpu_clocks_list "NCCL::GPU::CLOCKS::LIST" Lines;
    flight_processes "NCCL::FLIGHT::PROCESSES" Sum;
    flight_complete_from "NCCL::FLIGHT::COMPLETE_FROM" Most;
    flight_list "NCCL::FLIGHT::LIST" Lines;
    measurement_list "NCCL::MEASUREMENT::LIST" Lines;
    pxn_transfers "NCCL::PXN::TRANSFERS" Sum;
    pxn_unresolved "NCCL::PXN::UNRESOLVED" Sum;
    pxn_counted "NCCL::PXN::COUNTED" Sum;
    pxn_list "NCCL::PXN::LIST" Lines;
    chain_plugins "NCCL::CHAIN::PLUGINS" Lines;
    chain_left_out "NCCL::CHAIN::LEFT_OUT" Lines;
    scorep_processes "NCCL::SCOREP::PROCESSES" Sum;
    scorep_target "NCCL::SCOREP::TARGET" Lines;
    /// Hosts whose topology NCCL dumped.
    topology_hosts "NCCL::TOPOLOGY::HOSTS" Sum;
    merged "NCCL::MERGED" Lines;
    merged_map "NCCL::MERGED::MAP" Lines;
    merged_clock "NCCL::MERGED::CLOCK" Lines;
    => listed {
        parts "NCCL::PARTS::NUMBER" "NCCL::PARTS";
        hosts "NCCL::CLOCK::ALIGNMENT::HOSTS" "NCCL::CLOCK::ALIGNMENT::LIST";
        problems "NCCL::PROBLEMS" "NCCL::PROBLEM_LIST";
        topology_unused "NCCL::TOPOLOGY::UNUSED" "NCCL::TOPOLOGY::UNUSED::LIST";
        graphs_unused "NCCL::TOPOLOGY::GRAPHS_UNUSED" "NCCL::TOPOLOGY::GRAPHS_UNUSED::LIST";
        ranks_impossible "NCCL::RANKS_IMPOSSIBLE" "NCCL::RANKS_IMPOSSIBLE::LIST";
        mismatch_function "NCCL::MISMATCH::FUNCTION" "NCCL::MISMATCH::FUNCTION::LIST";
        mismatch_count "NCCL::MISMATCH::COUNT" "NCCL::MISMATCH::COUNT::LIST";
        mismatch_datatype "NCCL::MISMATCH::DATATYPE" "NCCL::MISMATCH::DATATYPE::LIST";
        mismatch_root "NCCL::MISMATCH::ROOT" "NCCL::MISMATCH::ROOT::LIST";
        mismatch_order "NCCL::MISMATCH::ORDER" "NCCL::MISMATCH::ORDER::LIST";
        ranks_behind "NCCL::RANKS_BEHIND" "NCCL::RANKS_BEHIND::LIST";
        matching_unknown "NCCL::MATCHING_UNKNOWN" "NCCL::MATCHING_UNKNOWN::LIST";
    }
}

/// The result of reading a property.
enum ReadOutcome {
    Well,
    /// The value violates the grammar.
    Badly,
    /// No property has this name.
    Unknown,
}

fn read<G: Grammar>(into: &mut G, value: &str) -> ReadOutcome {
    match G::parse(value) {
        Some(value) => {
            *into = value;
            ReadOutcome::Well
        }
        None => ReadOutcome::Badly,
    }
}

impl Statements {
    /// NCCL's dumps that could not be used: of hosts, then of graphs.
    pub fn unused_dumps(&self) -> Vec<String> {
        [&self.topology_unused, &self.graphs_unused].into_iter().flat_map(|listed| listed.lines.shown()).collect()
    }

    /// Reads the properties of an archive; ignores those of other writers.
    pub fn read<'a>(properties: impl IntoIterator<Item = &'a Property>) -> Self {
        let mut found = Self::default();
        for (name, value) in properties.into_iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let property = || (name.clone(), value.clone());
            match found.read_one(name, value) {
                ReadOutcome::Well => {}
                ReadOutcome::Badly => found.bad.push(property()),
                ReadOutcome::Unknown => found.unknown.push(property()),
            }
        }
        found
    }

    /// Whether any property was written by this project.
    pub fn are_in(properties: &[Property]) -> bool {
        properties.iter().any(|(name, _)| name.starts_with(PREFIX))
    }

    fn read_count(&mut self, name: &str, value: &str) -> ReadOutcome {
        let Some((family, name)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once("::")) else {
            return ReadOutcome::Unknown;
        };
        let number = value.trim().parse();
        let into = match (family, name.split_once("::")) {
            ("COUNT", None) => self.counts.get_mut(name),
            ("COUNT", Some((kind, name))) => {
                let kind = Kind::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(kind));
                kind.and_then(|kind| self.counts.kind_mut(kind).get_mut(name))
            }
            ("GPU", None) => self.gpu_counts.get_mut(name),
            ("CHAIN", None) => Some(self.chain_counts.entry(name.to_owned()).or_default()),
            ("SCOREP", None) => Some(self.scorep_counts.entry(name.to_owned()).or_default()),
            _ => None,
        };
        match (into, number) {
            (Some(into), Ok(number)) => {
                *into = number;
                ReadOutcome::Well
            }
            (Some(_), Err(_)) => ReadOutcome::Badly,
            (None, _) => ReadOutcome::Unknown,
        }
    }

    /// For each quality of GPU clocks the number of ranks and their largest residual.
    pub fn gpu_clocks(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = [
            (self.gpu_clock_bounded, self.gpu_clock_bounded_ns),
            (self.gpu_clock_piecewise, self.gpu_clock_piecewise_ns),
            (self.gpu_clock_upper_only, self.gpu_clock_upper_only_ns),
            (self.gpu_clock_inconsistent, self.gpu_clock_inconsistent_ns),
        ];
        all.into_iter().map(|(ranks, residual_ns)| (ranks.get(), residual_ns.get()))
    }

    /// Writes the properties. OTF2 has no empty properties, so these are omitted.
    pub fn write(&self) -> Vec<Property> {
        let mut written = Vec::new();
        self.write_single(|name, value| written.push((name.to_owned(), value)));
        for (kind, counts) in self.counts.kinds.iter() {
            let kind = kind.name().to_uppercase();
            for (name, number) in counts.named().filter(|(name, number)| is_written(name, *number)) {
                written.push((format!("{PREFIX}COUNT::{kind}::{name}"), number.to_string()));
            }
        }
        let mut add = |family: &str, name: &str, number: u64| {
            if number > 0 {
                written.push((format!("{PREFIX}{family}::{name}"), number.to_string()));
            }
        };
        self.counts.named().for_each(|(name, number)| add("COUNT", name, number));
        self.gpu_counts.named().for_each(|(name, number)| add("GPU", name, number));
        self.chain_counts.iter().for_each(|(name, number)| add("CHAIN", name, *number));
        self.scorep_counts.iter().for_each(|(name, number)| add("SCOREP", name, *number));
        written.extend(self.bad.iter().chain(&self.unknown).cloned());
        written.retain(|(_, value)| !value.is_empty());
        written
    }

    /// The properties of two archives, merged.
    pub fn merged(mut self, other: &Self) -> Self {
        // A host's line contains more than its name, and the rest may differ between archives.
        let mut hosts = self.hosts.clone();
        hosts.merge_by(&other.hosts, |line| line.split_once(": ").map_or(line, |(host, _)| host));
        self.merge_single(other);
        self.hosts = hosts;
        if self.alignment_groups.get() > 1 {
            // Nothing bounds the clocks of one group relative to another group.
            self.alignment_uncertainty_ns = Most(None);
        }
        self.counts.add(&other.counts);
        self.gpu_counts.add(&other.gpu_counts);
        for (own, others) in
            [(&mut self.chain_counts, &other.chain_counts), (&mut self.scorep_counts, &other.scorep_counts)]
        {
            for (name, number) in others {
                let sum = own.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*number);
            }
        }
        merge_texts(&mut self.bad, &other.bad);
        merge_texts(&mut self.unknown, &other.unknown);
        self
    }
}

/// Whether a counter of a kind is written: SEEN and WRITTEN always, others unless they are 0.
pub fn is_written(name: &str, number: u64) -> bool {
    number > 0 || matches!(name, "SEEN" | "WRITTEN")
}

/// Merges properties without a known grammar as lists, which loses nothing.
fn merge_texts(own: &mut Vec<Property>, others: &[Property]) {
    for (name, value) in others {
        match own.iter_mut().find(|(known, _)| known == name) {
            Some((_, before)) => {
                let lines: BTreeSet<String> = before.lines().map(str::to_owned).gather();
                for line in value.lines().filter(|line| !lines.contains(*line)) {
                    before.push('\n');
                    before.push_str(line);
                }
            }
            None => own.push((name.clone(), value.clone())),
        }
    }
}

/// The value of a property.
pub trait Grammar: Default + PartialEq {
    /// Parses a text; `None` if it violates the grammar.
    fn parse(text: &str) -> Option<Self>;
    /// The text to write; empty if there is no value.
    fn text(&self) -> String;
    /// Adds the value from another archive.
    fn merge(&mut self, other: &Self);
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $name:ident: |$a:ident, $b:ident| $merged:expr;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub Option<u64>);

        impl $name {
            /// The number, or no value if it is 0.
            pub const fn some(number: u64) -> Self {
                Self(if number == 0 { None } else { Some(number) })
            }

            /// The number; 0 if there is no value.
            pub const fn get(self) -> u64 {
                match self.0 {
                    Some(number) => number,
                    None => 0,
                }
            }
        }

        impl Grammar for $name {
            fn parse(text: &str) -> Option<Self> {
                Some(Self(Some(text.trim().parse().ok()?)))
            }

            fn text(&self) -> String {
                self.0.map(|number| number.to_string()).unwrap_or_default()
            }

            fn merge(&mut self, other: &Self) {
                let ($a, $b) = (self.0, other.0);
                self.0 = $merged;
            }
        }
    )+};
}

numbers! {
    /// A number that merging adds up. Missing means 0.
    Sum: |a, b| a.into_iter().chain(b).reduce(u64::saturating_add);
    /// A number of which merging keeps the largest.
    Most: |a, b| a.max(b);
    /// A number that merging adds up. Missing means unknown, and makes the sum unknown.
    KnownSum: |a, b| a.zip(b).map(|(a, b)| a.saturating_add(b));
}

/// A list with one entry per line. A merged list contains each entry once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The entries.
    pub all: Vec<String>,
    /// Number of entries that were cut to make the list fit into the anchor file.
    pub more: u64,
}

/// Prefix of the last line of a cut list.
const MORE: &str = "and more: ";

impl Lines {
    /// A list of these entries. A line break in an entry is written as `\n`.
    pub fn from_entries<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Self {
        let line = |entry: T| entry.as_ref().replace('\n', "\\n").replace('\0', "");
        Self { all: entries.into_iter().map(line).collect(), more: 0 }
    }

    /// Number of entries, including those that were cut.
    pub fn len(&self) -> u64 {
        self.more.saturating_add(self.all.len() as u64)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries, for users, with a final line for entries that were cut.
    pub fn shown(&self) -> Vec<String> {
        self.all.iter().cloned().chain((self.more > 0).then(|| format!("{MORE}{}", self.more))).collect()
    }

    /// Cuts the list to as many of its first entries as fit into `bytes`.
    pub(crate) fn cut(&mut self, bytes: usize) {
        let mut length = 0;
        let fits = |line: &&String| {
            let before = length;
            length += line.len() + 1;
            before + line.len() < bytes
        };
        let kept = self.all.iter().take_while(fits).count();
        self.more = self.more.saturating_add((self.all.len() - kept) as u64);
        self.all.truncate(kept);
    }
}

impl Grammar for Lines {
    fn parse(text: &str) -> Option<Self> {
        let (kept, last) = text.rsplit_once('\n').unwrap_or(("", text));
        let more = last.strip_prefix(MORE).and_then(|more| more.parse().ok());
        let kept = if more.is_some() { kept } else { text };
        Some(Self { all: kept.lines().map(str::to_owned).collect(), more: more.unwrap_or(0) })
    }

    fn text(&self) -> String {
        self.shown().join("\n")
    }

    fn merge(&mut self, other: &Self) {
        let known: BTreeSet<&String> = self.all.iter().gather();
        let new: Vec<String> = other.all.iter().filter(|line| !known.contains(line)).cloned().collect();
        self.all.extend(new);
        self.more = self.more.saturating_add(other.more);
    }
}

/// A value that applies to a single archive, and that merged archives lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotMerged(pub String);

impl Grammar for NotMerged {
    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }

    fn text(&self) -> String {
        self.0.clone()
    }

    fn merge(&mut self, _: &Self) {
        self.0.clear();
    }
}

/// A list and a number, which counts the entries or what they describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The total number.
    pub number: Sum,
    /// The entries, or the first of them.
    pub lines: Lines,
}

impl Listed {
    /// The most entries that a writer writes of a potentially long list.
    const MOST: u64 = 100;

    /// This number, and at most [`Self::MOST`] of the entries.
    pub fn some<T: AsRef<str>>(number: u64, entries: impl IntoIterator<Item = T>) -> Self {
        let entries = entries.into_iter().take(usize::try_from(Self::MOST).unwrap_or(usize::MAX));
        Self { number: Sum::some(number), lines: Lines::from_entries(entries) }
    }

    /// Whether the list has at least as many entries as the number requires.
    pub fn has_enough(&self) -> bool {
        self.lines.len() >= self.number.get().min(Self::MOST)
    }

    /// Merges and counts entries with equal keys once. `key` returns the identifying part of an entry.
    pub(crate) fn merge_by(&mut self, other: &Self, key: fn(&str) -> &str) {
        let known: BTreeSet<&str> = self.lines.all.iter().map(|line| key(line)).gather();
        let both = other.lines.all.iter().filter(|line| known.contains(key(line))).count() as u64;
        self.number.merge(&other.number);
        self.number.0 = self.number.0.map(|number| number.saturating_sub(both));
        self.lines.merge(&other.lines);
    }
}

/// Something that an archive lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Callbacks that could not be recorded: starts, stops, states, and starts and ends of communicators.
    Callbacks(u64),
    /// Processes whose part could not be included.
    Processes(u64),
    /// Places in journals that could not be read.
    Places(u64),
    /// What happened before the period that flight recordings keep.
    Beginning,
    /// What happened while recording was off.
    WhileOff,
    /// Ranks of communicators whose processes were not recorded.
    Ranks(u64),
    /// Collectives that some recorded ranks lack.
    Collectives(u64),
    /// Ranks that called fewer collectives than others.
    RanksBehind(u64),
    /// Ranges and marks of the program or of NCCL that could not be recorded.
    Ranges(u64),
}

impl Statements {
    /// What the archive lacks according to its own properties. Events that were unfinished at the end are not lacking.
    pub fn missing_data(&self) -> impl Iterator<Item = Lack> {
        let some = |number: u64, lack: fn(u64) -> Lack| (number > 0).then(|| lack(number));
        let is = |is_so: bool, lack: Lack| is_so.then_some(lack);
        let is_flight = self.counts.removed > 0 || self.flight_processes.get() > 0;
        let lacks = [
            some(self.counts.lost(), Lack::Callbacks),
            some(self.parts_left_out.len(), Lack::Processes),
            some(self.problems.number.get(), Lack::Places),
            is(is_flight, Lack::Beginning),
            is(!self.measurement_list.is_empty(), Lack::WhileOff),
            some(self.ranks_missing.get(), Lack::Ranks),
            some(self.collectives_unmatched.get(), Lack::Collectives),
            some(self.ranks_behind.number.get(), Lack::RanksBehind),
            some(self.counts.ranges_lost, Lack::Ranges),
        ];
        lacks.into_iter().flatten()
    }

    /// Whether nothing shows that communication of the job is missing, or had not ended.
    pub fn may_have_all_communication(&self) -> bool {
        let others = &self.counts.others;
        let without_record = others.collectives_unknown + others.messages_without_peer + others.uninitialised;
        self.missing_data().next().is_none()
            && self.unfinished() == 0
            && without_record == 0
            && self.steps.is_empty()
            // Missing if a part was written while its process ran.
            && self.started.0.is_some()
    }

    /// Whether the archive lacks something that happened.
    pub fn is_cut(&self) -> bool {
        self.missing_data().any(|lack| {
            use Lack::{Beginning, Callbacks, Places, Processes, Ranks};
            matches!(lack, Callbacks(_) | Processes(_) | Places(_) | Beginning | Ranks(_))
        })
    }

    /// Whether recording was switched off at times.
    pub fn was_switched(&self) -> bool {
        self.missing_data().any(|lack| lack == Lack::WhileOff)
    }

    /// Whether the clock readings of a process are lost, so that its ticks were taken for nanoseconds.
    pub fn has_assumed_ticks(&self) -> bool {
        self.clock_calibration.all.iter().any(|calibration| calibration == "assumed")
    }

    /// Number of events that were unfinished when the recording ended.
    pub fn unfinished(&self) -> u64 {
        self.counts.kinds.sum(|kind| kind.unfinished)
    }

    /// Whether ranks may lack some of each other's operations, according to the archive's properties.
    pub fn is_partial(&self) -> bool {
        self.is_cut() || self.unfinished() > 0
    }

    /// Whether something in the middle may be missing, so that positions in an order have no meaning.
    pub fn has_gaps(&self) -> bool {
        self.missing_data().any(|lack| matches!(lack, Lack::Callbacks(_) | Lack::Places(_)))
    }

    /// On ranks of a communicator whose calls differ or may differ. Each line begins with the communicator's name.
    pub fn differences(&self) -> impl Iterator<Item = &Listed> {
        self.mismatches().into_iter().map(|(_, listed)| listed).chain([&self.ranks_behind, &self.matching_unknown])
    }

    /// In what the calls of a communicator's ranks differ.
    pub const fn mismatches(&self) -> [(&'static str, &Listed); 5] {
        [
            ("function", &self.mismatch_function),
            ("count", &self.mismatch_count),
            ("datatype", &self.mismatch_datatype),
            ("root", &self.mismatch_root),
            ("order", &self.mismatch_order),
        ]
    }
}
