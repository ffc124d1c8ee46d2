//! Says which call of NCCL and which of the program's ranges a rank is in.

use std::cmp::Reverse;

use analysis::units::time;
use nccl_events::range::RangeField;

use super::names;
use super::rows::{CallRow, DoingRow, RangeRow};
use crate::doing::{Doing, NcclCall, OpenRange};
use crate::job::{Job, Process, Rank, state_name};
use crate::judge::blockage::{Blockage, StepCall};
use crate::judge::suspects::Suspect;

/// `in ncclCommSplit for 42.000 s`, if the rank is in a call.
pub(super) fn call_text(doing: &Doing, until_ns: u64) -> Option<String> {
    let NcclCall { name, since_ns, .. } = doing.call.as_ref()?;
    Some(format!("in {name} for {}", time(until_ns.saturating_sub(*since_ns))))
}

/// "in `train_step > load_batch`", if the program has ranges.
pub(super) fn ranges_text(doing: &Doing) -> Option<String> {
    doing.path().map(|path| format!("in `{path}`"))
}

/// A row for each rank whose process recorded NVTX ranges.
pub(super) fn rows(job: &Job) -> Vec<DoingRow> {
    let ranks = job.everyone.ranks.values().filter_map(|rank| Some((rank, job.process_of(rank)?)));
    let is_shown = |(rank, process): &(&Rank, &Process)| process.shows_calls || !rank.doing.ranges.is_empty();
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
        call: rank.doing.call.as_ref().map(|call| call_row(call, for_ns(call.since_ns))),
        ranges: rank.doing.ranges.iter().map(range).collect(),
    }
}

fn call_row(call: &NcclCall, for_ns: u64) -> CallRow {
    let id = |field| call.number(field).map(|id| format!("{id:#018x}"));
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
    processes.into_iter().all(|process| process.shows_calls && process.doing.values().all(|one| one.call.is_none()))
}

/// The rank that waits longest of those whose program has ranges, and these: ", rank 0 in `train_step`".
pub(super) fn waiter(job: &Job, blockage: &Blockage, found: &Suspect) -> String {
    let ranges = |(rank, for_ns): &(u32, u64)| {
        let member = (blockage.comm, *rank);
        let text = ranges_text(&job.member(member)?.doing).filter(|_| member != found.member)?;
        Some((*for_ns, Reverse(*rank), text))
    };
    blockage.waiters.iter().filter_map(ranges).max().map_or_else(String::new, |(_, Reverse(rank), text)| {
        let who = match job.comm(blockage.comm).filter(|comm| !comm.lacks_numbers) {
            Some(comm) => names::ranks(comm, &[rank]),
            None => names::member(job, (blockage.comm, rank)),
        };
        format!(", {who} {text}")
    })
}

/// Nothing says which ranks a communicator that is being made will have, nor whose end the end of one waits for.
pub(super) const fn may_take_part(call: &StepCall, ranks: &[u32]) -> &'static str {
    match call.is_end {
        true => names::verb(
            ranks,
            "whether the call waits for it is not known",
            "whether the call waits for them is not known",
        ),
        false => names::verb(ranks, "whether it takes part is not known", "whether they take part is not known"),
    }
}
