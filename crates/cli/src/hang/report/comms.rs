//! The communicators of the report.

use super::ranks::{Incomplete, rank_row, wait_rows};
use super::rows::{CollectiveRow, CommRow, MessageRow, MismatchCall, MismatchRow, SequenceRow};
use super::straggler::straggler;
use super::{names, sentences};
use crate::hang::job::{Comm, Job, Rank};
use crate::hang::judge::blockage::{Blockage, Cause, Operation};
use crate::hang::judge::collectives::Collectives;
use crate::hang::judge::mismatch::Mismatch;
use crate::hang::operation::{Call, Message};
use crate::hang::sequence::Sequence;

pub(crate) fn comm_row<'a>(job: &Job, comm: &Comm, blockages: impl Iterator<Item = &'a Blockage>) -> CommRow {
    let messages = blockages.filter_map(|blockage| match &blockage.operation {
        Operation::Message(message) => Some(message_row(job, comm, blockage, message)),
        Operation::Collective { .. } => None,
    });
    CommRow {
        name: comm.name.clone(),
        id: format!("{:#018x}", comm.id),
        ranks: comm.size,
        ranks_known: comm.knows_size,
        has_all_ranks: comm.has_all,
        ranks_missing: comm.missing(),
        messages: messages.collect(),
        sequences: Sequence::in_comm(comm).map(|sequence| sequence_row(job, comm, sequence)).collect(),
        straggler: straggler(job, comm),
    }
}

fn sequence_row(job: &Job, comm: &Comm, sequence: Sequence) -> SequenceRow {
    let reach = Collectives::of(job, comm, sequence).reach();
    let ranks: Vec<(u32, &Rank)> = sequence.ranks(comm).collect();
    let numbers = |of: &dyn Fn(&Rank) -> bool| -> Vec<u32> {
        let ranks = ranks.iter().filter(|(_, rank)| of(rank));
        ranks.map(|(number, _)| *number).collect()
    };
    let at = reach.first_incomplete;
    let has_positions = |rank: &Rank| sequence.of(rank).has_positions();
    let is_past = |rank: &Rank| at.is_some_and(|at| sequence.of(rank).count() > at);
    let waited_ns = ranks.iter().filter_map(|(_, rank)| {
        let call = sequence.of(rank).at(at?)?;
        let is_open = !call.progress.stage.is_over();
        job.waited_ns(rank, call.entered_ns).filter(|_| is_open)
    });
    let incomplete =
        at.map(|position| Incomplete { position, all_entered: ranks.iter().all(|(_, rank)| is_past(rank)) });
    let rows = ranks.iter();
    let rows = rows.map(|rank| rank_row(job, comm, *rank, sequence, incomplete));
    SequenceRow {
        graphs: sequence == Sequence::Replays,
        from_beginning: sequence.is_from_beginning(comm),
        last_complete: reach.last_complete.map(|(at, is_sure)| collective_row(comm, sequence, at, is_sure)),
        first_incomplete: at.map(|at| collective_row(comm, sequence, at, true)),
        entered: numbers(&|rank| has_positions(rank) && is_past(rank)),
        not_entered: numbers(&|rank| at.is_some() && has_positions(rank) && !is_past(rank)),
        position_unknown: numbers(&|rank| !has_positions(rank)),
        waited_ns: waited_ns.max(),
        mismatch: reach.mismatch.map(|mismatch| mismatch_row(comm, sequence, &mismatch)),
        ranks: rows.collect(),
    }
}

fn collective_row(comm: &Comm, sequence: Sequence, position: u64, is_sure: bool) -> CollectiveRow {
    let calls = comm.ranks.values();
    let calls = calls.filter_map(|rank| sequence.of(rank).at(position));
    let what = calls.clone().next().map(|call| &call.what);
    CollectiveRow {
        position: position + 1,
        is_sure,
        function: what.map(names::function),
        sequence: calls.clone().find_map(|call| call.sequence),
        count: what.map(|what| what.count),
        datatype: what.map(|what| what.datatype.to_string()),
        root: what.and_then(|what| what.root),
    }
}

fn mismatch_row(comm: &Comm, sequence: Sequence, mismatch: &Mismatch) -> MismatchRow {
    let calls = mismatch.groups.iter().map(|(what, ranks)| {
        // Where not all are known from the API only functions were compared: say what was called all the same.
        let mut members = ranks.iter().filter_map(|rank| comm.ranks.get(rank));
        let call: Option<&Call> = members.find_map(|rank| sequence.of(rank).at(mismatch.position));
        let what = call.map_or(what, |call| &call.what);
        MismatchCall {
            ranks: ranks.clone(),
            function: names::function(what),
            count: what.count,
            datatype: what.datatype.to_string(),
            root: what.root,
        }
    });
    MismatchRow { position: mismatch.position + 1, text: sentences::mismatch(comm, mismatch), calls: calls.collect() }
}

fn message_row(job: &Job, comm: &Comm, blockage: &Blockage, message: &Message) -> MessageRow {
    let (number, for_ns) = blockage.waiters.first().copied().unwrap_or((0, 0));
    let rank = comm.ranks.get(&number);
    MessageRow {
        rank: number,
        job_rank: comm.job_rank(number),
        function: message.func().into(),
        peer: message.peer,
        number: message.number + 1,
        count: message.count,
        datatype: message.datatype.to_string(),
        stage: message.progress.stage.name().into(),
        for_ns,
        peer_called: matches!(blockage.cause, Cause::AllEntered(_)),
        waits: rank.map_or_else(Vec::new, |rank| wait_rows(job, rank, &message.progress.waits)),
        text: sentences::waits(job, blockage),
    }
}
