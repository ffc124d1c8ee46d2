//! The report as data: `docs/REFERENCE.md` §9 describes the fields. The text is generated from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use job::communicators::rank_list;
use job::life::Life;
use nccl_events::archive::path_of_ranges;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;
use crate::job::state_name;

type Name = Cow<'static, str>;

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Report {
    pub format: u32,
    pub directory: String,
    /// The moment of judgement, CLOCK_REALTIME ns.
    pub time_ns: u64,
    pub after_ns: u64,
    /// `journals` or `archive`.
    #[serde(default)]
    pub source: Name,
    pub verdict: Verdict,
    pub suspects: Vec<SuspectRow>,
    /// Only with the verdict `quiet`.
    pub quiet: Option<QuietReport>,
    /// What each rank is in, where its process recorded NVTX ranges.
    #[serde(default)]
    pub ranks: Vec<DoingRow>,
    pub unknown: Vec<String>,
    pub processes: Vec<ProcessRow>,
    pub communicators: Vec<CommRow>,
    /// Only in a verdict kept beside an archive: the archive's number of events, which identifies the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_events: Option<u64>,
}

impl Report {
    pub fn runs(&self) -> bool {
        self.processes.iter().any(|process| process.process_state == "running")
    }

    /// The processes that are gone without having ended their recording.
    pub fn gone(&self) -> impl Iterator<Item = &ProcessRow> {
        self.processes.iter().filter(|process| process.process_state == "gone")
    }

    /// Whether no process is alive, so that nothing more can be recorded.
    pub fn is_over(&self) -> bool {
        let is_over = |state: &str| Life::ALL.into_iter().any(|life| life.is_over() && state_name(life) == state);
        self.processes.iter().all(|process| is_over(&process.process_state))
    }

    /// Whether the verdict or its first suspect is a mismatch.
    pub fn names_mismatch(&self) -> bool {
        self.verdict.kind == Kind::Mismatch || self.suspects.first().is_some_and(|suspect| suspect.reason == "mismatch")
    }

    /// Where ranks are, those first that are with the fewest others; empty if no rank is in a call or in a range.
    pub fn places(&self) -> Vec<Place> {
        let mut places: BTreeMap<(String, String), Vec<&DoingRow>> = BTreeMap::new();
        for row in &self.ranks {
            let color = |call: &CallRow| call.color.map_or_else(String::new, |color| format!(", color {color}"));
            let call = match &row.call {
                Some(call) => format!("{}{}", call.name, color(call)),
                None if row.reports_calls => String::new(),
                None => "not known".to_owned(),
            };
            let ranges = path_of_ranges(row.ranges.iter().map(|range| &range.name));
            places.entry((call, ranges)).or_default().push(row);
        }
        let mut places: Vec<((String, String), Vec<&DoingRow>)> = places.into_iter().collect();
        nccl_events::sort::sort_by_key(&mut places, |(_, rows)| rows.len());
        let is_any = self.ranks.iter().any(|row| row.call.is_some() || !row.ranges.is_empty());
        let places = places.into_iter().filter(|_| is_any).map(|((call, ranges), rows)| Place {
            who: who(&rows),
            call,
            for_ns: rows.iter().filter_map(|row| Some(row.call.as_ref()?.for_ns)).max(),
            ranges,
        });
        places.collect()
    }

    pub fn is_of_archive(&self) -> bool {
        self.source == "archive"
    }
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Verdict {
    /// Whether the job hangs, or has an error that will make it hang: exit code 1.
    pub found: bool,
    pub kind: Kind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Hang,
    Mismatch,
    Died,
    Quiet,
    Waiting,
    Nothing,
    /// The records do not show whether the job hangs.
    Unknown,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct SuspectRow {
    pub reason: Name,
    pub communicator: String,
    pub rank: u32,
    /// The suspect's number in the job; `None` if unknown.
    pub job_rank: Option<u32>,
    pub process: Option<String>,
    pub ranks_blocked: usize,
    pub text: String,
    pub advice: Option<String>,
    /// From the rank that waits longest to the suspect.
    pub chain: Vec<String>,
}

/// Ranks that are in the same call and the same ranges.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Ranks of the job, or where these are not known, processes.
    pub who: String,
    /// The call of NCCL; none outside NCCL.
    pub call: String,
    /// For how long the first of them has been in it.
    pub for_ns: Option<u64>,
    /// The program's ranges, outermost first.
    pub ranges: String,
}

fn who(rows: &[&DoingRow]) -> String {
    let ranks: Option<Vec<u32>> = rows.iter().map(|row| row.job_rank).collect();
    ranks.map_or_else(|| names::addresses(rows.iter().map(|row| row.process.clone())), |ranks| rank_list(&ranks))
}

/// What a rank is in, by NVTX ranges.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct DoingRow {
    pub job_rank: Option<u32>,
    pub process: String,
    pub process_state: Name,
    /// If false, `call` is not known.
    pub reports_calls: bool,
    pub call: Option<CallRow>,
    /// The program's ranges, outermost first; those around the call if there is one.
    pub ranges: Vec<RangeRow>,
}

/// A call of NCCL that has not returned, with the arguments that NCCL has stated.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct CallRow {
    pub name: String,
    pub for_ns: u64,
    pub communicator: Option<String>,
    pub parent: Option<String>,
    pub rank: Option<i64>,
    pub ranks: Option<i64>,
    pub color: Option<i64>,
    pub key: Option<i64>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct RangeRow {
    pub domain: String,
    pub name: String,
    pub for_ns: u64,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuietReport {
    pub for_ns: u64,
    pub reports_calls: bool,
    /// Whether calls that make, split or end communicators are reported, too.
    #[serde(default)]
    pub reports_all_calls: bool,
    /// Longest quiet first.
    pub ranks: Vec<QuietRow>,
    pub advice: Vec<String>,
}

#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct QuietRow {
    pub rank: Option<u32>,
    pub job_rank: Option<u32>,
    pub communicator: Option<String>,
    pub process: String,
    pub launcher_rank: Option<u32>,
    pub process_state: Name,
    /// Time since NCCL last called the plugin in the process.
    pub quiet_ns: u64,
    pub inside: Vec<String>,
    pub text: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ProcessRow {
    pub part: String,
    pub host: String,
    pub pid: u32,
    pub launcher_rank: Option<u32>,
    pub process_state: Name,
    pub last_record_ns: u64,
    pub last_event_ns: u64,
    pub has_journal: bool,
    pub problems: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct CommRow {
    pub name: String,
    pub id: String,
    pub ranks: u32,
    pub ranks_known: bool,
    #[serde(default)]
    pub has_all_ranks: bool,
    pub ranks_missing: Vec<u32>,
    pub sequences: Vec<SequenceRow>,
    pub messages: Vec<MessageRow>,
    pub straggler: Option<Straggler>,
}

impl CommRow {
    pub fn has_open_calls(&self) -> bool {
        self.sequences.iter().flat_map(|sequence| &sequence.ranks).any(|rank| !rank.inside.is_empty())
    }

    /// Ranks by their numbers in the job: `4-6 (0-2 in tp)`.
    pub fn numbers(&self, ranks: &[u32]) -> String {
        let row = |rank| self.sequences.iter().flat_map(|one| &one.ranks).find(|row| row.rank == rank);
        names::numbers(&self.name, ranks, |rank| if self.has_all_ranks { Some(rank) } else { row(rank)?.job_rank })
    }

    /// Like [`Self::numbers`], with the noun: `ranks 4-6 (0-2 in tp)`.
    pub fn named(&self, ranks: &[u32]) -> String {
        format!("{} {}", names::noun(ranks), self.numbers(ranks))
    }
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct SequenceRow {
    /// Whether the collectives belong to launched CUDA graphs.
    pub graphs: bool,
    /// Whether positions count from the communicator's first collective; else from the first kept one.
    pub from_beginning: bool,
    pub last_complete: Option<CollectiveRow>,
    pub first_incomplete: Option<CollectiveRow>,
    pub entered: Vec<u32>,
    pub not_entered: Vec<u32>,
    /// The ranks of flight recordings whose position in the order is unknown.
    pub position_unknown: Vec<u32>,
    pub waited_ns: Option<u64>,
    pub mismatch: Option<MismatchRow>,
    pub ranks: Vec<RankRow>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct CollectiveRow {
    /// From 1, in the communicator's order, from its beginning or the first kept collective.
    pub position: u64,
    /// If false, all ranks have called the collective, and its end is not recorded.
    pub is_sure: bool,
    pub function: Option<String>,
    pub sequence: Option<u64>,
    pub count: Option<u64>,
    pub datatype: Option<String>,
    pub root: Option<i32>,
}

impl CollectiveRow {
    /// `collective 3`, or `collective 3 of those kept`.
    pub fn place(&self, from_beginning: bool) -> String {
        names::position(self.position, from_beginning)
    }
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct MismatchRow {
    pub position: u64,
    pub text: String,
    pub calls: Vec<MismatchCall>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct MismatchCall {
    pub ranks: Vec<u32>,
    pub function: String,
    pub count: u64,
    pub datatype: String,
    pub root: Option<i32>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct RankRow {
    pub rank: u32,
    pub job_rank: Option<u32>,
    pub process: String,
    pub process_state: Name,
    /// How many collectives of the sequence the rank has called, from the origin of positions.
    pub entered: u64,
    /// Progress in the first incomplete collective, else in the rank's last.
    pub stage: Name,
    pub for_ns: Option<u64>,
    pub inside: Vec<String>,
    pub waits: Vec<WaitRow>,
    pub text: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct WaitRow {
    pub channel: u8,
    pub direction: Name,
    pub peer: i32,
    pub state: Name,
    pub step: Option<i32>,
    pub steps: i32,
    pub for_ns: u64,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct MessageRow {
    pub rank: u32,
    pub job_rank: Option<u32>,
    pub function: Name,
    pub peer: u32,
    /// From 1, for this rank, peer and direction.
    pub number: u64,
    pub count: u64,
    pub datatype: String,
    pub stage: Name,
    pub for_ns: u64,
    pub peer_called: bool,
    pub waits: Vec<WaitRow>,
    pub text: String,
}

/// A rank that is usually the last to enter.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Straggler {
    pub rank: u32,
    pub job_rank: Option<u32>,
    /// How often the rank was last, among the last `of` collectives that all ranks called.
    pub times: u64,
    pub of: u64,
    /// Median delay after the previous rank.
    pub behind_ns: u64,
}
