//! The properties of an archive (`docs/REFERENCE.md` §3).

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::Kind;

use crate::counts::{Counts, GpuCounts};
use crate::grammar::{Grammar, KnownSum, Lines, Listed, Most, Own, Sum};
use small_sort::Gather;

/// A property of an archive: name and value.
pub type Property = (String, String);

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

            /// The names of all properties except counters.
            pub const NAMES: &[&str] = &[$($text,)+ $($number, $list,)+];
        }
    };
}

properties! {
    parts_fingerprint "NCCL::PARTS::FINGERPRINT" Own;
    parts_left_out "NCCL::PARTS_LEFT_OUT" Lines;
    level "NCCL::LEVEL" Lines;
    metrics "NCCL::METRICS" Lines;
    comm_locations "NCCL::COMM_LOCATIONS" Lines;
    collectives "NCCL::COLLECTIVES" Lines;
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
    blind_spots "NCCL::BLIND_SPOTS" Lines;
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
enum Read {
    Well,
    /// The value violates the grammar.
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
    /// NCCL's dumps that could not be used: of hosts, then of graphs.
    pub fn unused_dumps(&self) -> Vec<String> {
        [&self.topology_unused, &self.graphs_unused].into_iter().flat_map(|it| it.lines.shown()).collect()
    }

    /// Reads the properties of an archive; ignores those of other writers.
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

    /// Whether any property was written by this project.
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
