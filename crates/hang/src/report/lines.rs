//! The line of each finding, of at most 110 characters, with its evidence and what to do next.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::compare::{Explanation, Mismatch, signature};
use crate::graph::parts::{Described, Key, PartId};
use crate::graph::play::Meeting;
use crate::graph::{Graph, Reason, Vertex};
use crate::job::{Job, Member, Process, Sequence};
use crate::judge::{Confidence, Finding, Suspect, Unreceived};
use crate::lifetimes::DiedBeforePeers;
use crate::report::sentences::tense;
use crate::report::words::{MOST_EVIDENCE, comm_name, fit, operation_name, place_name, seconds, verb, who};
use analysis::units::plural;

pub(crate) fn mismatch(job: &Job, found: &Mismatch, longest_ns: Option<u64>) -> Finding {
    let members = |ranks: &[u32]| -> Vec<Member> { ranks.iter().map(|rank| (found.key.comm(), *rank)).collect() };
    let deviants = members(&found.deviants());
    let usual = found.groups.first().map_or_else(Vec::new, |(_, ranks)| members(ranks));
    let of = comm_name(job, found.key.comm());
    let what = if found.is_message() { "message" } else { "collective" };
    let number = found.key.position() + 1;
    let kept = if found.from_beginning || found.is_message() { "" } else { " of those kept" };
    let graph = if matches!(found.key, Key::Collective(_, Sequence::Replays, _)) { " of launched graphs" } else { "" };
    let head = format!("the ranks of {of} gave {what} {number}{kept}{graph} different {}", found.difference.name());
    let differ = verb(&deviants, "differs", "differ");
    let is_of_nccl = found.difference.is_of_nccl();
    let mut ends = vec![
        format!(": {} {differ} from {}", who(job, &deviants), who(job, &usual)),
        if found.is_tie() && !found.is_by_habit {
            format!(": {} differ", who(job, &[usual.clone(), deviants.clone()].concat()))
        } else {
            format!(": {} {differ}", who(job, &deviants))
        },
    ];
    match longest_ns {
        Some(ns) => {
            let wait = if job.is_over() { "waited" } else { "waiting" };
            let longer: Vec<String> = ends.iter().map(|end| format!("{end}; {wait} {}", seconds(ns))).collect();
            ends.splice(0..0, longer);
        }
        None if is_of_nccl => {}
        None => {
            let longer: Vec<String> = ends.iter().map(|end| format!("{end}; results may be wrong")).collect();
            ends.splice(0..0, longer);
        }
    }
    let groups = found.groups.iter().take(4);
    let mut evidence: Vec<String> =
        groups.map(|(what, ranks)| format!("{}: {what}", who(job, &members(ranks)))).collect();
    let name = who(job, &deviants);
    evidence.extend(found.explanation.map(|explanation| match explanation {
        Explanation::OnlyThis => "the following calls agree: only this one differs".to_owned(),
        Explanation::LeftOut => format!("the following calls agree if {name} left out one call before this one"),
        Explanation::OneTooMany => format!(
            "the following calls agree if {name} made one call too many before this \
            one"
        ),
        Explanation::Swapped => format!("the following calls agree if {name} made two calls in the opposite order"),
    }));
    let next = if is_of_nccl {
        "compare NCCL_ALGO, NCCL_PROTO, NCCL_NTHREADS, tuner plugins and nccl.conf of these ranks"
    } else if found.is_message() {
        "compare the count and type passed to ncclSend and ncclRecv"
    } else {
        "compare the code paths of the program on these ranks: all ranks of a communicator must make the same calls"
    };
    if found.is_by_habit {
        evidence.push("both ranks made this call after the same sequence of calls".to_owned());
    }
    let is_tie = found.is_tie() && !found.is_by_habit;
    let is_unclear = is_tie && !is_of_nccl;
    let suspects: Vec<Member> = if found.is_message() || is_tie { [usual, deviants].concat() } else { deviants };
    let line = fit(&head, &ends);
    Finding {
        reason: Reason::Mismatch,
        suspects: suspects
            .into_iter()
            .map(|member| Suspect {
                member,
                reason: Reason::Mismatch,
                blocked: 0,
                text: line.clone(),
                chain: Vec::new(),
            })
            .collect(),
        line,
        evidence,
        confidence: match found.is_by_habit {
            true => Confidence::Likely,
            false if is_unclear => Confidence::CannotTellWhom,
            false => Confidence::Certain,
        },
        next: Some(next.to_owned()),
    }
}

/// A nonblocking call that makes a communicator returns at once. The communicator is there when NCCL starts the
/// profiler for it.
///
/// Returns whether the job gave up and went on, too.
pub(crate) fn unmade(job: &Job, after_ns: u64) -> Option<(Finding, bool)> {
    let asked = job.processes.iter().enumerate().filter(|(_, process)| !process.unmade_since_ns.is_empty());
    let asked: Vec<(usize, &Process)> = asked.collect();
    let missing: Vec<Member> = job.everyone.missing().into_iter().map(|rank| (job.comms.len(), rank)).collect();
    let since_ns = asked.iter().flat_map(|(_, process)| &process.unmade_since_ns).copied().min()?;
    let aborts = asked.iter().flat_map(|(_, process)| &process.aborts_ns).filter(|ns| **ns >= since_ns);
    let aborted_ns = aborts.min().copied();
    let until_ns = aborted_ns.or_else(|| asked.iter().map(|(_, process)| process.until_ns).max())?;
    let waited_ns = until_ns.saturating_sub(since_ns);
    if missing.is_empty() || waited_ns < after_ns.min(aborted_ns.map_or(u64::MAX, |_| 1_000_000_000)) {
        return None;
    }
    let ranks = job.everyone.ranks.iter();
    let askers = ranks.filter(|(_, rank)| asked.iter().any(|(process, _)| *process == rank.actor.process));
    let askers: Vec<Member> = askers.map(|(number, _)| (job.comms.len(), *number)).collect();
    let head = format!("{} never came", who(job, &missing));
    let ask = tense(job, "wait", "waited");
    let line = fit(
        &head,
        &if aborted_ns.is_some() {
            [
                format!(": a communicator was not made within {}, and was aborted", seconds(waited_ns)),
                ": a communicator was not made".to_owned(),
                String::new(),
            ]
        } else {
            [
                format!(": {} asked for a communicator {} ago (nonblocking)", who(job, &askers), seconds(waited_ns)),
                format!("; {} {ask} for a communicator", who(job, &askers)),
                String::new(),
            ]
        },
    );
    let size = job.everyone.size;
    let evidence = vec![
        format!("{} asked for a communicator {} ago, and it was not made", who(job, &askers), seconds(waited_ns)),
        format!(
            "the launcher started {}; nothing is recorded about {}",
            plural(size.into(), "rank", "ranks"),
            who(job, &missing)
        ),
    ];
    let suspect = |member: Member| Suspect {
        member,
        reason: Reason::NeverCame,
        blocked: askers.len(),
        text: line.clone(),
        chain: Vec::new(),
    };
    let finding = Finding {
        reason: Reason::NeverCame,
        suspects: missing.iter().copied().map(suspect).collect(),
        line: line.clone(),
        evidence,
        confidence: Confidence::Likely,
        next: Some("check whether its process started, and with the plugin".to_owned()),
    };
    Some((finding, aborted_ns.is_some()))
}

/// The wait that lasts longest, and for how long.
pub(crate) fn longest_wait(graph: &Graph<'_>) -> Option<(String, u64)> {
    let job = graph.played.job;
    let longest = graph.starts.iter().max_by_key(|start| (graph.waited_ns(**start), Reverse(**start)))?;
    let ns = graph.waited_ns(*longest);
    let actor = graph.actor(*longest)?;
    let member = match longest {
        Vertex::Part(part) => graph.played.parts.get(*part)?.member,
        _ => graph.member_of(actor)?,
    };
    let wait = tense(job, "waits", "waited");
    Some((format!("{} {wait} in {} for {}", who(job, &[member]), place_name(graph, *longest), seconds(ns)), ns))
}

/// The waiting ranks whose recordings end long before those of others: how long they waited is not known.
pub(crate) fn cut_short(
    graph: &Graph<'_>,
    died: &DiedBeforePeers<'_>,
    hang: &Finding,
) -> Option<(String, Vec<String>)> {
    let job = graph.played.job;
    let outlived = graph.starts.iter().filter_map(|start| {
        let Vertex::Part(part) = *start else { return None };
        let member = graph.played.parts.get(part)?.member;
        Some((died.outlived_ns(member)?, *start, member))
    });
    let outlived: Vec<(u64, Vertex, Member)> = outlived.collect();
    let (ns, place, (comm, _)) = outlived.iter().copied().max_by_key(|(ns, start, _)| (*ns, Reverse(*start)))?;
    let mut members: Vec<Member> =
        outlived.iter().map(|(_, _, member)| *member).filter(|member| member.0 == comm).collect();
    members.sort_unstable();
    members.dedup();
    let line = format!(
        "the records of {} end {} before the others', in {}",
        who(job, &members),
        seconds(ns),
        place_name(graph, place)
    );
    let fault = hang.line.split("; ").next().filter(|_| hang.reason == Reason::NotCalled);
    let fault = fault.map(str::to_owned);
    let waited = verb(&members, "it waited", "they waited").to_owned();
    let why = format!(
        "whether {waited} until then is not recorded: the job may have hung, or was killed while it was working"
    );
    Some((line, fault.into_iter().chain([why]).collect()))
}

pub(crate) fn waiting_message(graph: &Graph<'_>, id: PartId, meeting: &Meeting, peer_called: bool) -> String {
    let job = graph.played.job;
    let Some(part) = graph.played.parts.get(id) else { return String::new() };
    let Key::Message { comm, sender, receiver, .. } = meeting.key else { return String::new() };
    let peer = if part.member.1 == sender { receiver } else { sender };
    let name = meeting.parts.get(&part.member.1).map(|(_, operation)| operation_name(job, part.member, *operation));
    let has = tense(job, "has", "had");
    let answer = if peer_called { "called the other end" } else { "not called the other end" };
    format!(
        "{} {} in {} for {}; {} {has} {answer}",
        who(job, &[part.member]),
        tense(job, "waits", "waited"),
        name.unwrap_or_default(),
        seconds(graph.waited_ns(Vertex::Part(id))),
        who(job, &[(comm, peer)]),
    )
}

pub(crate) fn past(job: &Job, mut finding: Finding, aborted: &[Member], later: usize) -> Finding {
    let (comm, _) = aborted.first().copied().unwrap_or_default();
    let then = format!("{} aborted {}", who(job, aborted), comm_name(job, comm));
    let line = finding.line.split("; ").next().unwrap_or_default().to_owned();
    finding.line = fit(&line, &[format!("; {then}"), "; then aborted".to_owned(), String::new()]);
    let operations = plural(later as u64, "collective was", "collectives were");
    finding.evidence.insert(0, format!("{then}, and the job continued: {operations} called after it"));
    finding.evidence.truncate(MOST_EVIDENCE);
    finding
}

/// A message that only a buffer let end.
pub(crate) fn unreceived(job: &Job, found: &Unreceived) -> Option<Finding> {
    let Unreceived { comm, from, to, sent, received } = *found;
    let [sender, receiver] = [from, to].map(|rank| who(job, &[(comm, rank)]));
    let of = comm_name(job, comm);
    let head = format!("{receiver} received {received} of the {}", plural(sent, "message", "messages"));
    let ends = [format!(" that {sender} sent to it in {of}"), format!(" of {sender} in {of}"), format!(" of {sender}")];
    let line = fit(&head, &ends);
    let suspect = |rank: u32| Suspect {
        member: (comm, rank),
        reason: Reason::NotCalled,
        blocked: 0,
        text: line.clone(),
        chain: Vec::new(),
    };
    Some(Finding {
        reason: Reason::NotCalled,
        suspects: [from, to].map(suspect).into(),
        evidence: vec!["the sends ended because NCCL buffered the messages, which NCCL does not guarantee".to_owned()],
        confidence: Confidence::CannotTellWhom,
        next: Some(format!("compare the sends of {sender} with the receives of {receiver}")),
        line,
    })
}

/// The releases of NCCL that ranks use, if they differ.
pub(crate) fn releases(job: &Job) -> Option<String> {
    let mut found: BTreeMap<&str, Vec<Member>> = BTreeMap::new();
    for (number, rank) in &job.everyone.ranks {
        if let Some(process) = job.process_of(rank).filter(|process| !process.release.is_empty()) {
            found.entry(&process.release).or_default().push((job.comms.len(), *number));
        }
    }
    let each = found.iter().map(|(release, members)| format!("{} {release}", who(job, members)));
    let each: Vec<String> = each.collect();
    (found.len() > 1).then(|| format!("ranks use different NCCL releases: {}", each.join("; ")))
}

/// The arguments of a call for a table.
pub(super) fn arguments(call: &Described<'_>, mismatch: &Mismatch) -> String {
    signature(call, mismatch.difference)
}
