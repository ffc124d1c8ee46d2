//! The table of the rules, the findings counted by rule, and what the archive states about missing data, which turns a
//! fault into a remark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use analysis::Trace;
use nccl_events::sort::Gather;
use otf2::LocationRef;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Fault,
    /// The run was incomplete or poorly measured, and the archive states it.
    Remark,
}

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Remark => "remark",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Any,
    /// Archives with the statements of this project's writer, the properties `NCCL::…`.
    Nccl,
}

impl Scope {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Nccl => "nccl",
        }
    }
}

macro_rules! rules {
    ($($rule:ident $number:ident $severity:ident $scope:ident $sentence:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $sentence] $rule,)*
        }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            /// The area's letter and two digits. Numbers of removed rules are not reused.
            pub const fn number(self) -> &'static str {
                match self { $(Self::$rule => stringify!($number),)* }
            }

            pub const fn severity(self) -> Severity {
                match self { $(Self::$rule => Severity::$severity,)* }
            }

            pub const fn scope(self) -> Scope {
                match self { $(Self::$rule => Scope::$scope,)* }
            }

            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$rule => $sentence,)* }
            }
        }
    };
}

rules! {
    Definitions S01 Fault Any "The global definitions can be read.";
    Anchor S02 Fault Any "The anchor's counts of locations and global definitions are right.";
    Clock S03 Fault Any "The archive has clock properties with a resolution.";
    DefinitionReference S04 Fault Any "Definitions refer only to what is defined.";
    Dense S05 Fault Any "References of each kind of definition are 0, 1, 2 and so on; only locations may have other \
        references.";
    Tree S06 Fault Any "Locations are in location groups, those in the system tree, and parents are defined before their children.";
    Communicator S07 Fault Any "The groups of communicators have their members from the single list of communicating \
        locations of their paradigm. No two ranks share a location with events.";
    File S08 Fault Any "Every location has its two files, and its event file is complete.";
    EventCount S09 Fault Any "Every location has as many events as its definition promises.";
    Events S10 Fault Any "All events can be read.";
    StrayFile S11 Fault Any "All event files with events belong to a location.";
    Nesting S12 Fault Any "Regions are left in the reverse order in which they were entered, and all are left.";
    Reference S13 Fault Any "Events refer only to what is defined.";
    AttributeType S14 Fault Any "Values of attributes have the type of their definition.";
    Metric S15 Fault Any "Metric events have a value for each member of their class, of its type.";
    LocationId S16 Fault Nccl "The place of a location in the list of communicating locations is its id (not in merged archives).";
    KernelGpu S17 Fault Nccl "A kernel or copy is on a location of the GPU that the communicator of its operation uses.";
    Locations S18 Fault Any "The archive has locations.";
    AsWritten S19 Fault Any "Global and local definitions match their checksums, if the anchor has them; either all \
        locations with events have local definitions, or none.";
    RangesAround S20 Fault Nccl "The user ranges that a call names are the ranges around it on its thread (not in \
        merged archives).";
    ShownOnce S21 Fault Nccl "A call that NCCL's profiler interface reports is not shown a second time around the \
        first.";
    UnusedFile S22 Remark Any "Locations that are not defined have neither empty event files nor local definitions.";
    Launch S23 Fault Nccl "A launch that an operation names is a kernel launch of its process.";
    OneLocation S24 Fault Nccl "A thread, communicator rank, CUDA stream or NVTX domain of a process has one location (not in merged archives).";

    CollectivePair C01 Fault Any "On a location, collectives begin and end alternately.";
    CollectiveRole C02 Fault Any "The operation of a collective matches the role of the region around it.";
    Request C03 Fault Any "Requests of messages and collectives are made once and completed once.";
    Membership C04 Fault Any "Communication records name ranks of the communicator, and are on locations that are its \
        members.";
    CollectiveOrder C05 Fault Any "The members of a communicator perform the same collectives, with the same root, in \
        the same order.";
    CollectiveBytes C06 Fault Any "The byte counts of a collective's members are consistent.";
    CollectiveRank C07 Fault Any "All recorded members of a communicator take part in each of its collectives, unless the archive says that something is missing.";
    MessageMatch C08 Fault Any "Every sent message is received, and vice versa, unless the archive says that \
        something is missing.";
    MessageBytes C09 Fault Any "Messages are received with the sizes they were sent with.";
    RemoteAccess C10 Fault Nccl "A put or get into a window completes once, with its matching id, unless recording \
        ended before that.";
    Partial C11 Remark Nccl "Ranks have all of each other's collectives and messages, even if the archive says that \
        something is missing.";
    RankMissing C12 Remark Any "All members of a communicator with activity have events.";
    RankStatement C13 Fault Nccl "The archive's counts of ranks without a recording, and of collectives that not all \
        recorded ranks have, are right.";
    SameFunction C14 Remark Nccl "The ranks of a communicator call the same functions.";
    SameCount C15 Remark Nccl "The ranks of a communicator call a collective with the same number of elements.";
    SameDatatype C16 Remark Nccl "The ranks of a communicator call a collective with the same datatype.";
    SameRoot C17 Remark Nccl "The ranks of a communicator call a collective with the same root.";
    SameOrder C18 Remark Nccl "The ranks of a communicator call collectives in the same order.";
    EquallyFar C19 Remark Nccl "The recorded ranks of a communicator call the same number of collectives.";
    MatchingKnown C20 Remark Nccl "It is known whether the ranks of a communicator call the same.";
    SameReduction C21 Remark Nccl "The ranks of a communicator call a collective with the same reduction operation.";
    SameTuning C22 Remark Nccl "NCCL chooses the same algorithm, protocol and number of channels on all ranks of a collective.";
    Received C23 Remark Nccl "Ranks receive all messages that are sent to them.";
    SafeOrder C24 Remark Nccl "Calls can end without NCCL buffering messages and without kernels running concurrently.";
    SameRelease C25 Remark Nccl "All processes use the same release of NCCL.";

    TimeOrder T01 Fault Any "With clock offsets applied, time does not go backwards on a location.";
    Span T02 Fault Any "Events are within the time that the clock properties span.";
    InsideParent T03 Fault Nccl "A kernel channel lies within the operation that it times, widened by the residual of \
        the GPU clocks.";
    GpuResidual T04 Fault Nccl "If GPU times are shown, the archive says how they were converted to the host's clock.";
    ClockAssumed T05 Remark Nccl "The clocks of all processes were measured against the system's.";
    GpuInconsistent T06 Remark Nccl "The bounds of GPU clocks do not contradict each other.";
    Suspicious T07 Remark Nccl "The GPU's own times are plausible.";
    EarlyReceive T08 Fault Nccl "Between hosts a message is received after it was sent, up to the stated uncertainty, unless the archive says that clocks are wrong.";
    EarlyExit T09 Fault Nccl "Between hosts no rank leaves a collective before all have entered it, up to the stated \
        uncertainty, unless the archive says that clocks are wrong.";
    ClocksAdmitted T10 Remark Nccl "The clocks of all hosts could be aligned, and then no effect precedes its cause.";
    KernelTime T11 Fault Nccl "A kernel or copy lies within the operation that it times.";
    GpuWorkClock T12 Remark Nccl "All times of GPU work could be placed, on clocks that were not set during the \
        recording.";
    ClockForward T13 Fault Any "The clock that a location's clock offsets define does not go backwards; a single \
        offset defines none.";
    ClockSpan T14 Fault Nccl "The clock offsets of a location span its events (not in merged archives).";
    ClockShared T15 Fault Nccl "All locations of a process and all processes of a host have the same clock offsets (not in merged archives).";
    ClockDrift T16 Fault Nccl "No clock is corrected by more than 1250 ppm: clocks do not drift faster (not in merged \
        archives).";
    ClockStatement T17 Fault Nccl "The clock offsets of a process convert its times to its host's wall clock, and \
        then by the stated correction, drift and uncertainty to the common clock (not in merged archives).";

    Account A01 Fault Nccl "For every kind, events seen = written + not shown + duplicate + left out.";
    Written A02 Fault Nccl "For every kind, the archive has as many events as it says were written.";
    Statement A03 Fault Nccl "The archive's counts are numbers, and its lists are as long as it says.";
    UnfinishedMark A04 Fault Nccl "If events are marked unfinished, the archive counts unfinished events.";
    Lost A05 Remark Nccl "Everything could be recorded.";
    Unfinished A06 Remark Nccl "All operations had ended when recording ended.";
    Problem A07 Remark Nccl "All of the recordings could be used.";
    PartLeftOut A08 Remark Nccl "The recordings of all processes are in the archive.";
    Twice A09 Remark Nccl "Every rank and every event was recorded once.";
    Started A10 Fault Nccl "The events seen and lost are as many as began, unless the archive says that a recording \
        could not be used.";
    LossSum A11 Fault Nccl "The numbers of lost stops and states are the sums over the kinds.";
    GpuWork A12 Fault Nccl "The archive has as many kernels and copies, and as many without their launch, as it says.";
    GpuWorkMissing A13 Remark Nccl "If GPU work was to be timed, the times of all launches' work are known.";
    ClockSums A14 Fault Nccl "The archive's statements on the clocks of all hosts agree with those on the clocks of \
        its processes (not in merged archives).";
    OneJob A15 Remark Nccl "The archive is of one job, and its directory has no recordings of other jobs.";
    RangesWritten A16 Fault Nccl "The archive has as many ranges and marks of the program as it says (not in merged \
        archives).";
    TopologyUsed A17 Remark Nccl "All of NCCL's dumps of hosts' topology could be used.";
}

impl Rule {
    /// Of the program's calls and settings, which `hang` judges.
    pub(crate) const fn is_of_calls(self) -> bool {
        use Rule::{Received, SafeOrder, SameReduction, SameRelease, SameTuning};
        matches!(self, SameReduction | SameTuning | Received | SafeOrder | SameRelease)
    }
}

const LISTED: u64 = 20;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    severity: Severity,
    rule: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.severity.name(), self.rule)?;
        if let (Some(location), Some(name)) = (self.location, &self.name) {
            write!(f, "location {location} \"{name}\": ")?;
        }
        if let Some(time) = self.time_ns {
            write!(f, "at {time}: ")?;
        }
        f.write_str(&self.message)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Broken {
    pub severity: Severity,
    pub count: u64,
    pub sentence: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    counts: BTreeMap<Rule, u64>,
    pub(crate) listed: Vec<Finding>,
}

impl Findings {
    pub(crate) fn general(&mut self, rule: Rule, message: impl Into<String>) {
        self.add(rule, None, None, message.into());
    }

    pub(crate) fn at(
        &mut self,
        (trace, location): (&Trace, LocationRef),
        time: Option<u64>,
        rule: Rule,
        message: impl Into<String>,
    ) {
        self.add(rule, Some((location.get(), trace.location_name(location))), time, message.into());
    }

    fn add(&mut self, rule: Rule, location: Option<(u64, String)>, time_ns: Option<u64>, message: String) {
        let count = self.counts.entry(rule).or_insert(0);
        *count += 1;
        if *count > LISTED {
            return;
        }
        let (location, name) = location.unzip();
        self.listed.push(Finding { severity: rule.severity(), rule: rule.number(), location, name, time_ns, message });
    }

    pub(crate) fn number(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|(rule, _)| rule.severity() == severity).map(|(_, count)| count).sum()
    }

    pub(crate) fn has(&self, rules: &[Rule]) -> bool {
        rules.iter().any(|rule| self.counts.contains_key(rule))
    }

    /// Rules with more findings than are listed, and the number of the others.
    pub(crate) fn unlisted(&self) -> Vec<(Rule, u64)> {
        self.counts.iter().filter(|(_, count)| **count > LISTED).map(|(rule, count)| (*rule, count - LISTED)).collect()
    }

    pub(crate) fn rules(&self) -> BTreeMap<&'static str, Broken> {
        let broken = |(rule, count): (&Rule, &u64)| {
            (rule.number(), Broken { severity: rule.severity(), count: *count, sentence: rule.sentence() })
        };
        self.counts.iter().map(broken).gather()
    }
}

/// Whether a location has events that could be read.
pub(crate) fn is_known(trace: &Trace, location: LocationRef, unreadable: &BTreeSet<LocationRef>) -> bool {
    trace.has_events(location) && !unreadable.contains(&location)
}

/// Whether the archive states that the ranks of a communicator do not call the same.
pub(crate) fn is_stated(trace: &Trace, comm: &str) -> bool {
    let mut lines = trace.statements.differences().flat_map(|listed| &listed.lines.all);
    lines.any(|line| line.strip_prefix(comm).is_some_and(|rest| rest.starts_with(": ")))
}

/// The rule that unequal ranks break: an archive that states what is missing is sound.
pub(crate) fn rule_unless(is_admitted: bool, rule: Rule) -> Rule {
    if is_admitted { Rule::Partial } else { rule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_broken_very_often_is_counted_and_not_listed() {
        let mut findings = Findings::default();
        for number in 0..30 {
            findings.general(Rule::Nesting, number.to_string());
        }
        findings.general(Rule::Lost, "3 events");
        assert_eq!((findings.number(Severity::Fault), findings.number(Severity::Remark)), (30, 1));
        assert_eq!(findings.listed.len(), 21);
        assert_eq!(findings.unlisted(), [(Rule::Nesting, 10)]);
        assert_eq!(findings.rules()["S12"].count, 30);
    }
}
