//! The report as data, from which the text is generated; `hang --json-schema` has its comments. Also readable names of
//! operations, ranks and communicators, and of the calls and ranges that a rank is in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::job::{Comm, Job, Message, NcclCall, OpenRange, Process, Rank, Signature, ThreadActivity, state_name};
use analysis::units::{count, time};
use model::job::RecordingState;
use nccl_events::archive::path_of_ranges;
use nccl_events::range::RangeField;
use nccl_events::{rank_list, visible};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

type Name = Cow<'static, str>;

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "HangReport")]
pub struct Report {
    pub format: u32,
    pub directory: String,
    /// The moment of judgement, CLOCK_REALTIME ns.
    pub time_ns: u64,
    /// `--after`, in ns.
    pub after_ns: u64,
    /// `journals` or `archive`.
    #[serde(default)]
    pub source: Name,
    pub verdict: Verdict,
    /// The likeliest first.
    pub suspects: Vec<SuspectRow>,
    /// Only with the verdict `quiet`.
    pub quiet: Option<QuietReport>,
    /// What each rank is in, where its process recorded NVTX ranges.
    #[serde(default)]
    pub ranks: Vec<DoingRow>,
    /// What is unknown, and what would show it.
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
        let is_over =
            |state: &str| RecordingState::ALL.into_iter().any(|life| life.is_over() && state_name(life) == state);
        self.processes.iter().all(|process| is_over(&process.process_state))
    }

    /// Escapes the names in sentences, so that programs that print them need not.
    pub(crate) fn show_names(&mut self) {
        let Verdict { line, evidence, next, command, .. } = &mut self.verdict;
        let suspects = self
            .suspects
            .iter_mut()
            .flat_map(|row| std::iter::once(&mut row.text).chain(&mut row.advice).chain(&mut row.chain));
        let sentences =
            std::iter::once(line).chain(evidence).chain(next).chain(command).chain(suspects).chain(&mut self.unknown);
        sentences.for_each(|sentence| *sentence = visible(sentence).into_owned());
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
            who: ranks_of_rows(&rows),
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
#[schemars(rename = "HangVerdict")]
pub struct Verdict {
    /// Whether the job hangs, or has an error that will make it hang: exit code 1.
    pub found: bool,
    pub kind: Kind,
    /// One line, of at most 110 characters for a finding, with the word that says what it means.
    pub line: String,
    /// What the finding is, such as `not-called`: that of the suspects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Name>,
    /// The suspects by their numbers in the job, as far as known.
    #[serde(default)]
    pub ranks: Vec<u32>,
    /// What the line rests on, the most convincing first.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// `certain`, `likely`, `cannot-tell-whom` or `below-nccls-calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Name>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The command that does it, for a shell; null if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "HangKind")]
pub enum Kind {
    Hang,
    Mismatch,
    /// The job hung, was aborted, and went on.
    PastHang,
    /// It did not hang, but NCCL does not guarantee that.
    Unsafe,
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
    /// Empty if it is being made, or unknown.
    pub communicator: String,
    /// Rank in the communicator, else in the job; a mere number if neither is known.
    pub rank: u32,
    /// The suspect's number in the job; `None` if unknown.
    pub job_rank: Option<u32>,
    /// `host:pid`; null if it was not recorded.
    pub process: Option<String>,
    /// Ranks that wait for the suspect; 0 for a stopped process, for which nobody waits.
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

fn ranks_of_rows(rows: &[&DoingRow]) -> String {
    let ranks: Option<Vec<u32>> = rows.iter().map(|row| row.job_rank).collect();
    ranks.map_or_else(|| addresses(rows.iter().map(|row| row.process.clone())), |ranks| rank_list(&ranks))
}

/// What a rank is in, by NVTX ranges.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct DoingRow {
    pub job_rank: Option<u32>,
    pub process: String,
    pub process_state: Name,
    /// If false, `call` is not known.
    pub reports_calls: bool,
    /// The NCCL call that has not returned; null outside NCCL.
    pub call: Option<CallRow>,
    /// The program's ranges, outermost first; those around the call if there is one.
    pub ranges: Vec<RangeRow>,
}

/// A call of NCCL that has not returned, with the arguments that NCCL has stated.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct CallRow {
    pub name: String,
    pub for_ns: u64,
    /// NCCL's id, as `parent`; null, like the rest, unless NCCL has stated it.
    pub communicator: Option<String>,
    pub parent: Option<String>,
    pub rank: Option<i64>,
    pub ranks: Option<i64>,
    pub color: Option<i64>,
    pub key: Option<i64>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct RangeRow {
    /// Empty: NVTX's default domain.
    pub domain: String,
    pub name: String,
    pub for_ns: u64,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct QuietReport {
    /// Since NCCL last called the plugin in any process.
    pub for_ns: u64,
    /// Whether calls are recorded.
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
    /// Null, as `rank`, before there is one.
    pub communicator: Option<String>,
    pub process: String,
    pub launcher_rank: Option<u32>,
    pub process_state: Name,
    /// Time since NCCL last called the plugin in the process.
    pub quiet_ns: u64,
    /// Calls that have not returned.
    pub inside: Vec<String>,
    /// Its last operation.
    pub text: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ProcessRow {
    pub part: String,
    pub host: String,
    pub pid: u32,
    pub launcher_rank: Option<u32>,
    /// `running`, `stopped`, `gone`, `ended`, `silent`; `not-known` for an archive, or if files that would show it are
    /// damaged.
    pub process_state: Name,
    /// In ns since 1970.
    pub last_record_ns: u64,
    /// NCCL's last callback, since 1970; 0: none.
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
    /// Whether its ranks are those of the job.
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
        numbers(&self.name, ranks, |rank| if self.has_all_ranks { Some(rank) } else { row(rank)?.job_rank })
    }

    /// Like [`Self::numbers`], with the noun: `ranks 4-6 (0-2 in tp)`.
    pub fn named(&self, ranks: &[u32]) -> String {
        format!("{} {}", noun(ranks), self.numbers(ranks))
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
    /// Ranks that have entered the first incomplete collective.
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
        position(self.position, from_beginning)
    }
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct MismatchRow {
    pub position: u64,
    /// What differs first, such as `counts`.
    #[serde(default)]
    pub difference: Name,
    pub text: String,
    pub calls: Vec<MismatchCall>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct MismatchCall {
    pub ranks: Vec<u32>,
    /// The call with the arguments that matter.
    #[serde(default)]
    pub call: String,
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
    /// Calls that have not returned.
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
    /// From 0; null if it was not recorded.
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

/// Limit on the processes named in a line.
const MOST_ADDRESSES: usize = 4;

pub(crate) fn function(what: &Signature) -> String {
    format!("nccl{}", what.func)
}

pub(crate) fn call(what: &Signature) -> String {
    let mut text = function(what);
    if !what.datatype.is_empty() {
        text += &format!(" of {} {}", count(what.count), what.datatype);
    }
    if let Some(root) = what.root {
        text += &format!(", root {root}");
    }
    text
}

pub(crate) fn message(comm: Option<&Comm>, message: &Message) -> String {
    let preposition = if message.is_send { "to" } else { "from" };
    let peer = comm.map_or_else(String::new, |comm| ranks(comm, &[message.peer]));
    format!("{} {preposition} {peer}", message.func())
}

/// Ranks of a communicator by their numbers in the job: `0-6, 8`, `4-6 (0-2 in tp)`; if these are unknown, `0-2 of tp`.
pub(crate) fn numbers(comm: &str, ranks: &[u32], job_rank: impl Fn(u32) -> Option<u32>) -> String {
    let own = rank_list(ranks);
    let in_job: Option<Vec<u32>> = ranks.iter().map(|rank| job_rank(*rank)).collect();
    match in_job.map(|numbers| rank_list(&numbers)) {
        Some(in_job) if in_job == own => own,
        Some(in_job) => format!("{in_job} ({own} in {comm})"),
        None => format!("{own} of {comm}"),
    }
}

pub(crate) fn ranks(comm: &Comm, ranks: &[u32]) -> String {
    format!("{} {}", noun(ranks), numbers(&comm.name, ranks, |rank| comm.job_rank(rank)))
}

pub(crate) const fn noun(ranks: &[u32]) -> &'static str {
    verb(ranks, "rank", "ranks")
}

/// Processes whose ranks are not known.
pub(crate) fn addresses(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    all.dedup();
    match all.len() {
        0..=MOST_ADDRESSES => all.join(", "),
        n => format!("{n} processes"),
    }
}

/// The verb form for "rank 3" or for "ranks 3-5".
pub(crate) const fn verb<'a>(list: &[u32], one: &'a str, several: &'a str) -> &'a str {
    if list.len() == 1 { one } else { several }
}

pub(crate) fn position(position: u64, from_beginning: bool) -> String {
    let of = if from_beginning { "" } else { " of those kept" };
    format!("collective {position}{of}")
}

/// `in ncclCommSplit for 42.000 s`, if the rank is in a call.
pub(super) fn call_text(activity: &ThreadActivity, until_ns: u64) -> Option<String> {
    let NcclCall { name, since_ns, .. } = activity.call.as_ref()?;
    Some(format!("in {name} for {}", time(until_ns.saturating_sub(*since_ns))))
}

/// "in `train_step > load_batch`", if the program has ranges.
pub(super) fn ranges_text(activity: &ThreadActivity) -> Option<String> {
    activity.path().map(|path| format!("in `{path}`"))
}

/// A row for each rank whose process recorded NVTX ranges.
pub(super) fn rows(job: &Job) -> Vec<DoingRow> {
    let ranks = job.everyone.ranks.values().filter_map(|rank| Some((rank, job.process_of(rank)?)));
    let is_shown = |(rank, process): &(&Rank, &Process)| process.shows_calls || !rank.activity.ranges.is_empty();
    ranks.filter(is_shown).map(|(rank, process)| row(rank, process)).collect()
}

fn row(rank: &Rank, process: &Process) -> DoingRow {
    let for_ns = |since_ns: u64| process.until_ns.saturating_sub(since_ns);
    let range = |range: &OpenRange| RangeRow {
        domain: range.domain.clone(),
        name: range.name.clone(),
        for_ns: for_ns(range.since_ns),
    };
    DoingRow {
        job_rank: rank.job_rank,
        process: process.address(),
        process_state: state_name(process.state).into(),
        reports_calls: process.shows_calls,
        call: rank.activity.call.as_ref().map(|call| call_row(call, for_ns(call.since_ns))),
        ranges: rank.activity.ranges.iter().map(range).collect(),
    }
}

fn call_row(call: &NcclCall, for_ns: u64) -> CallRow {
    let id = |field| call.number(field).map(|id| format!("{id:#x}"));
    let number = |field| call.number(field).map(u64::cast_signed);
    CallRow {
        name: call.name.clone(),
        for_ns,
        communicator: id(RangeField::CommId),
        parent: id(RangeField::ParentCommId),
        rank: number(RangeField::Rank),
        ranks: number(RangeField::Ranks),
        color: number(RangeField::SplitColor),
        key: number(RangeField::SplitKey),
    }
}

/// Whether every call of NCCL that a process of these is in would be seen, and none is in one.
pub(super) fn are_all_outside<'a>(processes: impl IntoIterator<Item = &'a Process>) -> bool {
    processes
        .into_iter()
        .all(|process| process.shows_calls && process.activities.values().all(|one| one.call.is_none()))
}
