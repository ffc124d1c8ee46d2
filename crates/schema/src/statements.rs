//! What an archive says of itself, in its properties (`docs/REFERENCE.md` §3).

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::Kind;

use crate::counts::{Counts, GpuCounts};
use crate::grammar::{Grammar, Lines, Listed, Most, Own, Sum, Told};
use small_sort::Gather;

/// A property of an archive: name and value.
pub type Property = (String, String);

/// Names of all properties of this project begin so.
const PREFIX: &str = "NCCL::";

macro_rules! properties {
    (
        $($(#[doc = $doc:literal])+ $field:ident $text:literal $grammar:ident;)+
        listed { $($(#[doc = $listed_doc:literal])+ $listed:ident $number:literal $list:literal;)+ }
    ) => {
        /// What an archive says of itself.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Statements {
            $($(#[doc = $doc])+ pub $field: $grammar,)+
            $($(#[doc = $listed_doc])+ pub $listed: Listed,)+
            /// `NCCL::COUNT::…`: what was seen and what became of it.
            pub counts: Counts,
            /// `NCCL::GPU::…`: counters of GPU work.
            pub gpu_counts: GpuCounts,
            /// `NCCL::CHAIN::…`: what the profiler plugins behind this one did not get.
            pub chain_counts: BTreeMap<String, u64>,
            /// `NCCL::SCOREP::…`: what Score-P was shown, and what not.
            pub scorep_counts: BTreeMap<String, u64>,
            /// What breaks its grammar.
            pub bad: Vec<Property>,
            /// What this version does not know.
            pub unknown: Vec<Property>,
        }

        impl Statements {
            fn read_one(&mut self, name: &str, value: &str) -> Read {
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

            /// The names of all properties, but those of the counters.
            pub const NAMES: &[&str] = &[$($text,)+ $($number, $list,)+];
        }
    };
}

properties! {
    /// A hash of the names of the parts, where they are too many to be named.
    parts_fingerprint "NCCL::PARTS::FINGERPRINT" Own;
    /// Parts that could not be included.
    parts_left_out "NCCL::PARTS_LEFT_OUT" Lines;
    /// How the archive was written: which events.
    level "NCCL::LEVEL" Lines;
    /// How the archive was written: which metrics.
    metrics "NCCL::METRICS" Lines;
    /// How the archive was written: what the locations of communicators are.
    comm_locations "NCCL::COMM_LOCATIONS" Lines;
    /// How the archive was written: which records collectives have.
    collectives "NCCL::COLLECTIVES" Lines;
    /// NCCL's version.
    version "NCCL::VERSION" Lines;
    /// The library, if it is not NCCL.
    library "NCCL::LIBRARY" Lines;
    /// The version of NCCL's profiler interface.
    table "NCCL::TABLE" Lines;
    /// The recorded kinds of events.
    events "NCCL::EVENTS" Lines;
    /// The command line.
    command "NCCL::COMMAND" Lines;
    /// The name of the job.
    job "NCCL::JOB" Lines;
    /// The launcher.
    launcher "NCCL::LAUNCHER" Lines;
    /// The launcher's name of a host, where it differs from the host name.
    node_names "NCCL::NODE_NAMES" Lines;
    /// The version of the plugin.
    plugin_version "NCCL::PLUGIN_VERSION" Lines;
    /// What this NCCL does not report.
    blind_spots "NCCL::BLIND_SPOTS" Lines;
    /// The version of the writer.
    writer_version "NCCL::WRITER_VERSION" Lines;
    /// Tick sources.
    clock_source "NCCL::CLOCK::SOURCE" Lines;
    /// How ticks became time.
    clock_calibration "NCCL::CLOCK::CALIBRATION" Lines;
    /// How far clock readings are from the line that time is computed by.
    clock_residual_ns "NCCL::CLOCK::RESIDUAL_NS" Most;
    /// How far the ticks of a process can be off its host's clock. On a process: off the archive's clock.
    clock_uncertainty_ns "NCCL::CLOCK::UNCERTAINTY_NS" Most;
    /// Ranks whose GPU clock has bounds on both sides, and fits them.
    gpu_clock_bounded "NCCL::GPU_CLOCK::BOUNDED::RANKS" Sum;
    /// Their largest residual.
    gpu_clock_bounded_ns "NCCL::GPU_CLOCK::BOUNDED::RESIDUAL_NS" Most;
    /// Ranks whose GPU clock is several lines.
    gpu_clock_piecewise "NCCL::GPU_CLOCK::PIECEWISE::RANKS" Sum;
    /// Their largest residual.
    gpu_clock_piecewise_ns "NCCL::GPU_CLOCK::PIECEWISE::RESIDUAL_NS" Most;
    /// Ranks whose GPU clock has bounds on one side only.
    gpu_clock_upper_only "NCCL::GPU_CLOCK::UPPER_ONLY::RANKS" Sum;
    /// Their largest residual.
    gpu_clock_upper_only_ns "NCCL::GPU_CLOCK::UPPER_ONLY::RESIDUAL_NS" Most;
    /// Ranks whose GPU clock contradicts its bounds.
    gpu_clock_inconsistent "NCCL::GPU_CLOCK::INCONSISTENT::RANKS" Sum;
    /// Their largest residual.
    gpu_clock_inconsistent_ns "NCCL::GPU_CLOCK::INCONSISTENT::RESIDUAL_NS" Most;
    /// A line for each GPU clock.
    gpu_clock_list "NCCL::GPU_CLOCK::LIST" Lines;
    /// With several hosts: constraints between their clocks.
    alignment_constraints "NCCL::CLOCK::ALIGNMENT::CONSTRAINTS" Sum;
    /// Constraints that do not hold.
    alignment_violations "NCCL::CLOCK::ALIGNMENT::VIOLATIONS" Sum;
    /// By how much at most.
    alignment_worst_violation_ns "NCCL::CLOCK::ALIGNMENT::WORST_VIOLATION_NS" Most;
    /// Groups of hosts that bound each other.
    alignment_groups "NCCL::CLOCK::ALIGNMENT::GROUPS" Sum;
    /// Hosts whose system clock is used as it is.
    alignment_uncorrected "NCCL::CLOCK::ALIGNMENT::UNCORRECTED" Sum;
    /// The largest uncertainty, if there is one group.
    alignment_uncertainty_ns "NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS" Most;
    /// Events that began, by the numbers in their ids. Recordings of earlier versions do not say it, nor do parts that
    /// were written while their process ran.
    started "NCCL::COUNT::STARTED" Told;
    /// Journal records read.
    records "NCCL::RECORDS" Sum;
    /// Ranks of communicators that nobody recorded.
    ranks_missing "NCCL::RANKS_MISSING" Sum;
    /// Collectives that not all recorded ranks have.
    collectives_unmatched "NCCL::COLLECTIVES_UNMATCHED" Sum;
    /// Ranks of a communicator that two parts have.
    ranks_claimed_twice "NCCL::RANKS_CLAIMED_TWICE" Sum;
    /// How GPU work was recorded.
    gpu_backend "NCCL::GPU::BACKEND" Lines;
    /// What was decided about GPU work and what went wrong.
    gpu_notices "NCCL::GPU::NOTICES" Lines;
    /// Known devices.
    gpu_devices "NCCL::GPU::DEVICES" Sum;
    /// The residual of the clocks of CUPTI and of CUDA events.
    gpu_clocks_residual_ns "NCCL::GPU::CLOCKS::RESIDUAL_NS" Most;
    /// Their uncertainty.
    gpu_clocks_uncertainty_ns "NCCL::GPU::CLOCKS::UNCERTAINTY_NS" Most;
    /// A line for each of them.
    gpu_clocks_list "NCCL::GPU::CLOCKS::LIST" Lines;
    /// Flight recordings: processes of which something was removed.
    flight_processes "NCCL::FLIGHT::PROCESSES" Sum;
    /// The time, in ns since 1970, from which on all records of all processes are there.
    flight_complete_from "NCCL::FLIGHT::COMPLETE_FROM" Most;
    /// A line for each of these processes.
    flight_list "NCCL::FLIGHT::LIST" Lines;
    /// A line each time the recording of a process was switched.
    measurement_list "NCCL::MEASUREMENT::LIST" Lines;
    /// Network transfers for other processes.
    pxn_transfers "NCCL::PXN::TRANSFERS" Sum;
    /// Those of which it is not known for whom.
    pxn_unresolved "NCCL::PXN::UNRESOLVED" Sum;
    /// Those that count for the operation that they were for.
    pxn_counted "NCCL::PXN::COUNTED" Sum;
    /// A line for each rank and process.
    pxn_list "NCCL::PXN::LIST" Lines;
    /// The profiler plugins behind this one.
    chain_plugins "NCCL::CHAIN::PLUGINS" Lines;
    /// Those that were left out, with the reason.
    chain_left_out "NCCL::CHAIN::LEFT_OUT" Lines;
    /// Processes under Score-P.
    scorep_processes "NCCL::SCOREP::PROCESSES" Sum;
    /// Which Score-P, which functions, which threads.
    scorep_target "NCCL::SCOREP::TARGET" Lines;
    /// In merged archives: who wrote the other trace.
    merged "NCCL::MERGED" Lines;
    /// In merged archives: a line for each process.
    merged_map "NCCL::MERGED::MAP" Lines;
    /// In merged archives: how the clocks were brought together.
    merged_clock "NCCL::MERGED::CLOCK" Lines;
    listed {
        /// The parts in the archive.
        parts "NCCL::PARTS::NUMBER" "NCCL::PARTS";
        /// With several hosts: a line for each.
        hosts "NCCL::CLOCK::ALIGNMENT::HOSTS" "NCCL::CLOCK::ALIGNMENT::LIST";
        /// Journal damage and other problems.
        problems "NCCL::PROBLEMS" "NCCL::PROBLEM_LIST";
        /// Collectives of which ranks call another function.
        mismatch_function "NCCL::MISMATCH::FUNCTION" "NCCL::MISMATCH::FUNCTION::LIST";
        /// Collectives that ranks call with another number of elements.
        mismatch_count "NCCL::MISMATCH::COUNT" "NCCL::MISMATCH::COUNT::LIST";
        /// Collectives that ranks call with another datatype.
        mismatch_datatype "NCCL::MISMATCH::DATATYPE" "NCCL::MISMATCH::DATATYPE::LIST";
        /// Collectives that ranks call with another root.
        mismatch_root "NCCL::MISMATCH::ROOT" "NCCL::MISMATCH::ROOT::LIST";
        /// Collectives that ranks call in another order.
        mismatch_order "NCCL::MISMATCH::ORDER" "NCCL::MISMATCH::ORDER::LIST";
        /// Ranks that called fewer collectives than others.
        ranks_behind "NCCL::RANKS_BEHIND" "NCCL::RANKS_BEHIND::LIST";
        /// Communicators whose ranks could not be compared.
        matching_unknown "NCCL::MATCHING_UNKNOWN" "NCCL::MATCHING_UNKNOWN::LIST";
    }
}

/// What became of a property that was read.
enum Read {
    Well,
    /// It breaks its grammar.
    Badly,
    /// No property has this name.
    Unknown,
}

fn read<G: Grammar>(into: &mut G, value: &str) -> Read {
    match G::parse(value) {
        Some(value) => {
            *into = value;
            Read::Well
        }
        None => Read::Badly,
    }
}

impl Statements {
    /// Reads the properties of an archive; those of other writers are not among them.
    pub fn read<'a>(properties: impl IntoIterator<Item = &'a Property>) -> Self {
        let mut found = Self::default();
        for (name, value) in properties.into_iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let property = || (name.clone(), value.clone());
            match found.read_one(name, value) {
                Read::Well => {}
                Read::Badly => found.bad.push(property()),
                Read::Unknown => found.unknown.push(property()),
            }
        }
        found
    }

    /// Whether the writer of this project says something.
    pub fn are_in(properties: &[Property]) -> bool {
        properties.iter().any(|(name, _)| name.starts_with(PREFIX))
    }

    fn read_count(&mut self, name: &str, value: &str) -> Read {
        let Some((family, name)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once("::")) else {
            return Read::Unknown;
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
                Read::Well
            }
            (Some(_), Err(_)) => Read::Badly,
            (None, _) => Read::Unknown,
        }
    }

    /// How many ranks have a GPU clock of each quality, and the largest residual of these.
    pub fn gpu_clocks(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = [
            (self.gpu_clock_bounded, self.gpu_clock_bounded_ns),
            (self.gpu_clock_piecewise, self.gpu_clock_piecewise_ns),
            (self.gpu_clock_upper_only, self.gpu_clock_upper_only_ns),
            (self.gpu_clock_inconsistent, self.gpu_clock_inconsistent_ns),
        ];
        all.into_iter().map(|(ranks, residual_ns)| (ranks.get(), residual_ns.get()))
    }

    /// Writes them. OTF2 has no empty properties.
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

    /// What two archives say together.
    pub fn merged(mut self, other: &Self) -> Self {
        // A line of a host says more than its name, and may differ between archives.
        let mut hosts = self.hosts.clone();
        hosts.merge_by(&other.hosts, |line| line.split_once(": ").map_or(line, |(host, _)| host));
        self.merge_single(other);
        self.hosts = hosts;
        if self.alignment_groups.get() > 1 {
            // Nothing bounds the clocks of one group by those of another.
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

/// Whether a number of a kind that came is written: these two are, whatever they are.
pub fn is_written(name: &str, number: u64) -> bool {
    number > 0 || matches!(name, "SEEN" | "WRITTEN")
}

/// Properties without a grammar are merged as lists, which loses nothing.
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
