//! Ranks in a call that does not return, for whom nobody is seen to wait.

use analysis::units::time;

use super::doing::ranges_text;
use super::names;
use super::sentences::tense;
use crate::job::{Comm, Job, Rank};

/// The unreturned call that has lasted longest: NCCL is connecting in it, and reports nothing yet.
pub(crate) fn stuck_in_call(job: &Job, after_ns: u64) -> Option<String> {
    let members = job.comms.iter().enumerate().flat_map(|(index, comm)| {
        let ranks = comm.ranks.iter().filter(|(_, rank)| job.is_whole(rank));
        ranks.map(move |(number, rank)| ((index, *number), comm, rank))
    });
    let calls = members.flat_map(|(member, comm, rank)| {
        let reported = rank.open_calls.iter().filter(|call| call.is_in_nccl);
        let reported = reported.map(|call| (call.since_ns, format!("{} of communicator {}", call.what, comm.name)));
        // Whoever is in a step waits for others: that is a blockage.
        let of_ranges = rank.doing.call.iter().filter(|call| call.step().is_none() && !is_in_nccl(rank));
        let of_ranges = of_ranges.map(|call| (call.since_ns, format!("in {}", call.name)));
        // A call without a time counts as just begun.
        let calls = reported.chain(of_ranges).collect::<Vec<_>>().into_iter();
        calls.map(move |(since_ns, what)| (job.waited_ns(rank, since_ns).unwrap_or(0), member, comm, what))
    });
    // The first of equals.
    let longest = calls.rev().max_by_key(|(for_ns, ..)| *for_ns);
    let (for_ns, member, comm, what) = longest.filter(|(for_ns, ..)| *for_ns >= after_ns.max(1))?;
    let [is, has, does] = [("is", "was"), ("has", "had"), ("does", "did")].map(|(now, past)| tense(job, now, past));
    let who = names::member(job, member);
    let ranges = job.member(member).and_then(|rank| ranges_text(&rank.doing));
    let ranges = ranges.map_or_else(String::new, |ranges| format!(", {ranges}"));
    let in_call = format!("{who} {is} {what} for {}{ranges}, and it {has} not returned", time(for_ns));
    let maybe = format!("maybe a connection {is} being made, and its peer {does} not come");
    let outside = outside(job, comm);
    if outside.is_empty() {
        return Some(format!("{in_call}; nobody {is} seen to wait in an operation: {maybe}"));
    }
    Some(format!(
        "{} {} in no call of NCCL, and all other ranks of the communicator {}: {in_call}; {maybe}",
        names::members(job, member.0, &outside),
        tense(job, names::verb(&outside, "is", "are"), names::verb(&outside, "was", "were")),
        tense(job, "are", "were"),
    ))
}

/// Whether NCCL has reported a call that has not returned.
fn is_in_nccl(rank: &Rank) -> bool {
    rank.open_calls.iter().any(|call| call.is_in_nccl)
}

/// The ranks of a communicator outside any call, if most are in one.
fn outside(job: &Job, comm: &Comm) -> Vec<u32> {
    let is_inside = |rank: &Rank| is_in_nccl(rank) || rank.doing.call.is_some();
    let (inside, outside): (Vec<_>, Vec<_>) = comm.ranks.iter().partition(|(_, rank)| is_inside(rank));
    let are_known = outside.iter().all(|(_, rank)| job.is_whole(rank) && !rank.finalized);
    let is_clear = are_known && comm.missing().is_empty() && outside.len() <= inside.len();
    outside.into_iter().filter(|_| is_clear).map(|(number, _)| *number).collect()
}
