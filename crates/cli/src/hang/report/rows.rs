//! The report for programs: `docs/REFERENCE.md` §9 describes the fields. The text is made of it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A word of the report.
type Name = Cow<'static, str>;

/// In which a report is kept, in the directory of the archive.
pub(crate) const FILE: &str = "hang.json";

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) directory: String,
    /// The moment, CLOCK_REALTIME ns.
    pub(crate) time_ns: u64,
    pub(crate) after_ns: u64,
    /// What it was read from: journals or an archive.
    #[serde(default)]
    pub(crate) source: Name,
    pub(crate) verdict: Verdict,
    pub(crate) suspects: Vec<SuspectRow>,
    /// Of the verdict `quiet`.
    pub(crate) quiet: Option<QuietReport>,
    pub(crate) unknown: Vec<String>,
    pub(crate) processes: Vec<ProcessRow>,
    pub(crate) communicators: Vec<CommRow>,
    /// Of a verdict that is kept beside an archive: the archive's number of events, by which it is known again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archive_events: Option<u64>,
}

impl Report {
    /// Whether a process of the job runs.
    pub(crate) fn runs(&self) -> bool {
        self.processes.iter().any(|process| process.process_state == "running")
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Verdict {
    /// Whether something hangs, or is wrong in a way that will make it hang: exit code 1.
    pub(crate) found: bool,
    pub(crate) kind: Kind,
    /// The first line.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Hang,
    Mismatch,
    Died,
    Quiet,
    Waiting,
    Nothing,
    /// What is recorded does not say.
    Unknown,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SuspectRow {
    pub(crate) reason: Name,
    pub(crate) communicator: String,
    pub(crate) rank: u32,
    /// In the job; none where that is not known.
    pub(crate) job_rank: Option<u32>,
    pub(crate) process: Option<String>,
    pub(crate) ranks_blocked: usize,
    pub(crate) text: String,
    pub(crate) advice: Option<String>,
    /// From the one who waits longest to this rank.
    pub(crate) chain: Vec<String>,
}

/// A job of which NCCL reports nothing any more.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct QuietReport {
    pub(crate) for_ns: u64,
    /// Whether calls of NCCL's functions are recorded.
    pub(crate) reports_calls: bool,
    /// Those that are quiet longest first.
    pub(crate) ranks: Vec<QuietRow>,
    pub(crate) advice: Vec<String>,
}

/// What was last seen of a GPU of a process.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct QuietRow {
    pub(crate) rank: Option<u32>,
    pub(crate) job_rank: Option<u32>,
    pub(crate) communicator: Option<String>,
    pub(crate) process: String,
    pub(crate) launcher_rank: Option<u32>,
    pub(crate) process_state: Name,
    /// Since NCCL last called the plugin in the process.
    pub(crate) quiet_ns: u64,
    pub(crate) inside: Vec<String>,
    pub(crate) text: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ProcessRow {
    pub(crate) part: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) launcher_rank: Option<u32>,
    pub(crate) process_state: Name,
    pub(crate) last_record_ns: u64,
    pub(crate) last_event_ns: u64,
    pub(crate) has_journal: bool,
    pub(crate) problems: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct CommRow {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) ranks: u32,
    pub(crate) ranks_known: bool,
    /// Whether its ranks are those of the job.
    #[serde(default)]
    pub(crate) has_all_ranks: bool,
    pub(crate) ranks_missing: Vec<u32>,
    pub(crate) sequences: Vec<SequenceRow>,
    pub(crate) messages: Vec<MessageRow>,
    pub(crate) straggler: Option<Straggler>,
}

impl CommRow {
    /// Whether a call on it has not returned.
    pub(crate) fn has_open_calls(&self) -> bool {
        let ranks = self.sequences.iter().flat_map(|sequence| &sequence.ranks);
        ranks.into_iter().any(|rank| !rank.inside.is_empty())
    }
}

/// A sequence of collectives of a communicator.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SequenceRow {
    /// Whether these are those of launched CUDA graphs.
    pub(crate) graphs: bool,
    /// Whether positions count from the first collective of the communicator; else from the first that is kept.
    pub(crate) from_beginning: bool,
    pub(crate) last_complete: Option<CollectiveRow>,
    pub(crate) first_incomplete: Option<CollectiveRow>,
    pub(crate) entered: Vec<u32>,
    pub(crate) not_entered: Vec<u32>,
    /// The ranks of flight recordings whose position in the order is unknown.
    pub(crate) position_unknown: Vec<u32>,
    pub(crate) waited_ns: Option<u64>,
    pub(crate) mismatch: Option<MismatchRow>,
    pub(crate) ranks: Vec<RankRow>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct CollectiveRow {
    /// From 1, in the order of the communicator, from its beginning or the first that is kept.
    pub(crate) position: u64,
    /// False: all have called it, and whether it ended is not recorded.
    pub(crate) is_sure: bool,
    pub(crate) function: Option<String>,
    pub(crate) sequence: Option<u64>,
    pub(crate) count: Option<u64>,
    pub(crate) datatype: Option<String>,
    pub(crate) root: Option<i32>,
}

/// Different calls at one position.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MismatchRow {
    pub(crate) position: u64,
    pub(crate) text: String,
    pub(crate) calls: Vec<MismatchCall>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MismatchCall {
    pub(crate) ranks: Vec<u32>,
    pub(crate) function: String,
    pub(crate) count: u64,
    pub(crate) datatype: String,
    pub(crate) root: Option<i32>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RankRow {
    pub(crate) rank: u32,
    pub(crate) job_rank: Option<u32>,
    pub(crate) process: String,
    pub(crate) process_state: Name,
    /// How many collectives of the sequence it has called, of those that positions count.
    pub(crate) entered: u64,
    /// How far it came in the first incomplete one, else in its last.
    pub(crate) stage: Name,
    pub(crate) for_ns: Option<u64>,
    pub(crate) inside: Vec<String>,
    pub(crate) waits: Vec<WaitRow>,
    pub(crate) text: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct WaitRow {
    pub(crate) channel: u8,
    pub(crate) direction: Name,
    pub(crate) peer: i32,
    pub(crate) state: Name,
    pub(crate) step: Option<i32>,
    pub(crate) steps: i32,
    pub(crate) for_ns: u64,
}

/// A send or receive that waits.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MessageRow {
    pub(crate) rank: u32,
    pub(crate) job_rank: Option<u32>,
    pub(crate) function: Name,
    pub(crate) peer: u32,
    /// From 1, of this rank with this peer in this direction.
    pub(crate) number: u64,
    pub(crate) count: u64,
    pub(crate) datatype: String,
    pub(crate) stage: Name,
    pub(crate) for_ns: u64,
    pub(crate) peer_called: bool,
    pub(crate) waits: Vec<WaitRow>,
    pub(crate) text: String,
}

/// A rank that is mostly the last to enter.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Straggler {
    pub(crate) rank: u32,
    pub(crate) job_rank: Option<u32>,
    /// In how many of the last collectives that all ranks called.
    pub(crate) times: u64,
    pub(crate) of: u64,
    /// How long after the one before it, in the median of those.
    pub(crate) behind_ns: u64,
}
