//! The rows of a communicator.

use super::ranks::{Incomplete, rank_row, wait_rows};
use super::rows::{CollectiveRow, CommRow, MessageRow, MismatchCall, MismatchRow, SequenceRow};
use super::straggler::straggler;
use super::{names, sentences};
use crate::job::{Comm, Job, Rank};
use crate::judge::Judgement;
use crate::judge::blockage::{Blockage, Cause, Operation};
use crate::judge::collectives::Reach;
use crate::judge::mismatch::Mismatch;
use crate::operation::{Call, Message};
use crate::sequence::Sequence;

pub(crate) fn comm_row(job: &Job, index: usize, comm: &Comm, judgement: &Judgement) -> CommRow {
    let blockages = judgement.blockages.iter().filter(|one| one.comm == index);
    let messages = blockages.filter_map(|blockage| match &blockage.operation {
        Operation::Message(message) => Some(message_row(job, comm, blockage, message)),
        Operation::Collective { .. } | Operation::Step(_) => None,
    });
    let reaches = judgement.reaches.get(index).into_iter().flatten();
    CommRow {
        name: comm.name.clone(),
        id: format!("{:#018x}", comm.id),
        ranks: comm.size,
        ranks_known: comm.knows_size,
        has_all_ranks: comm.has_all,
        ranks_missing: comm.missing(),
        messages: messages.collect(),
        sequences: reaches.map(|(sequence, reach)| sequence_row(job, comm, *sequence, reach)).collect(),
        straggler: straggler(job, comm),
    }
}

fn sequence_row(job: &Job, comm: &Comm, sequence: Sequence, reach: &Reach) -> SequenceRow {
    let ranks: Vec<(u32, &Rank)> = sequence.ranks(comm).collect();
    let numbers = |of: &dyn Fn(&Rank) -> bool| -> Vec<u32> {
        ranks.iter().filter(|(_, rank)| of(rank)).map(|(number, _)| *number).collect()
    };
    let at = reach.first_incomplete;
    let has_positions = |rank: &Rank| sequence.of(rank).has_positions();
    let is_past = |rank: &Rank| at.is_some_and(|at| sequence.of(rank).count() > at);
    let waited_ns = |&(_, rank): &(u32, &Rank)| {
        let call = sequence.of(rank).at(at?).filter(|call| !call.progress.stage.is_over())?;
        job.waited_ns(rank, call.entered_ns)
    };
    let all_entered = ranks.iter().all(|(_, rank)| is_past(rank));
    let incomplete = at.map(|position| Incomplete { position, all_entered });
    SequenceRow {
        graphs: sequence == Sequence::Replays,
        from_beginning: sequence.is_from_beginning(comm),
        last_complete: reach.last_complete.map(|(at, is_sure)| collective_row(comm, sequence, at, is_sure)),
        first_incomplete: at.map(|at| collective_row(comm, sequence, at, true)),
        entered: numbers(&|rank| has_positions(rank) && is_past(rank)),
        not_entered: numbers(&|rank| at.is_some() && has_positions(rank) && !is_past(rank)),
        position_unknown: numbers(&|rank| !has_positions(rank)),
        waited_ns: ranks.iter().filter_map(waited_ns).max(),
        mismatch: reach.mismatch.as_ref().map(|mismatch| mismatch_row(job, comm, sequence, mismatch)),
        ranks: ranks.iter().map(|rank| rank_row(job, comm, *rank, sequence, incomplete)).collect(),
    }
}

fn collective_row(comm: &Comm, sequence: Sequence, position: u64, is_sure: bool) -> CollectiveRow {
    let calls = comm.ranks.values().filter_map(|rank| sequence.of(rank).at(position));
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

fn mismatch_row(job: &Job, comm: &Comm, sequence: Sequence, mismatch: &Mismatch) -> MismatchRow {
    let calls = mismatch.groups.iter().map(|(what, ranks)| {
        // If some calls are not from the API, only functions were compared: shows the arguments all the same.
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
    let text = sentences::mismatch(job, comm, mismatch);
    MismatchRow { position: mismatch.position + 1, text, calls: calls.collect() }
}

fn message_row(job: &Job, comm: &Comm, blockage: &Blockage, message: &Message) -> MessageRow {
    // The blockage of a message has one waiter.
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
