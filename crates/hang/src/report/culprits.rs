//! Ranks at the ends of all waits: the line, why they are there, and the way to them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::graph::parts::{Key, Part};
use crate::graph::play::Meeting;
use crate::graph::steps::StepCall;
use crate::graph::{Graph, Reason, Vertex, Why};
use crate::job::{Actor, Job, Member, Process};
use crate::judge::{Confidence, Culprit, Finding, Search, Suspect};
use crate::report::lines::releases;
use crate::report::rows::ranges_text;
use crate::report::sentences::tense;
use crate::report::words::{
    MOST_EVIDENCE, call_name, comm_name, fit, members_of, missing_call, part_name, place_name, seconds, verb, who,
};
use analysis::units::plural;
use model::job::RecordingState;
use nccl_events::sort::Gather;

/// The most ranks without records that are listed as suspects.
const MOST_MISSING: usize = 16;

fn waiters_ends(job: &Job, waiters: &[Member], longest_ns: u64) -> Vec<String> {
    if waiters.is_empty() {
        return vec![String::new()];
    }
    let wait = if job.is_over() { "waited" } else { verb(waiters, "waits", "wait") };
    let up_to = if waiters.len() > 1 { "up to " } else { "" };
    let time = seconds(longest_ns);
    vec![
        format!("; {} {wait} for {up_to}{time}", who(job, waiters)),
        format!("; {} {wait} for {up_to}{time}", plural(waiters.len() as u64, "rank", "ranks")),
        format!("; others {} {time}", tense(job, "wait", "waited")),
        String::new(),
    ]
}

/// What to run to see where a program is.
fn stacks(job: &Job, members: &[Member]) -> Option<String> {
    let process = members.iter().find_map(|member| job.process_of_member(*member))?;
    let Process { host, pid, .. } = process;
    Some(if process.state == RecordingState::Running {
        let gdb = format!("gdb -p {pid} -batch -ex 'thread apply all backtrace'");
        format!("see its stack on {host}: py-spy dump --native --pid {pid}, or {gdb}")
    } else {
        format!("look at the program's stack in {} the next time: py-spy dump --native --pid PID", who(job, members))
    })
}

/// The command that shows or ends what a finding says of the first suspect's process.
pub(crate) fn command(job: &Job, finding: &Finding) -> Option<String> {
    let process = finding.suspects.iter().find_map(|suspect| job.process_of_member(suspect.member))?;
    match (finding.reason, process.state) {
        (Reason::Stopped, _) => Some(format!("kill -CONT {}", process.pid)),
        (Reason::NotCalled | Reason::InTheCall, RecordingState::Running) => {
            Some(format!("py-spy dump --native --pid {}", process.pid))
        }
        _ => None,
    }
}

/// Where the programs of suspects are, by their ranges.
fn in_program(job: &Job, members: &[Member]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<Member>> = BTreeMap::new();
    for member in members {
        if let Some(ranges) = job.member(*member).and_then(|rank| ranges_text(&rank.activity)) {
            places.entry(ranges).or_default().push(*member);
        }
    }
    let is = |members: &[Member]| tense(job, verb(members, "is", "are"), verb(members, "was", "were"));
    places.iter().map(|(ranges, members)| format!("{} {} {ranges}", who(job, members), is(members))).collect()
}

/// The operation or call that ranks wait in because of a culprit: one that is itself waited for, else the first.
fn lead<'a>(search: &Search<'a, '_>, culprit: &Culprit) -> Option<(Vertex, u64)> {
    let graph = search.graph;
    let from = culprit.vertices.iter().flat_map(|vertex| match vertex {
        Vertex::Member(_) | Vertex::Unsure(_) => search.back.get(vertex).cloned().unwrap_or_default(),
        _ => vec![*vertex],
    });
    let called_ns = |vertex: &Vertex| {
        let back = search.back.get(vertex).into_iter().flatten();
        let parts = back.chain([vertex]).filter_map(|one| match one {
            Vertex::Part(part) => graph.played.parts.get(*part).map(|part| part.called_ns),
            _ => None,
        });
        parts.min()
    };
    let deepest = |vertex: &Vertex| graph.waiting_for(&[*vertex], &search.back).len();
    let best = from.max_by_key(|vertex| (deepest(vertex), Reverse(called_ns(vertex)), Reverse(*vertex)))?;
    Some((best, called_ns(&best).unwrap_or(0)))
}

/// The finding on the ranks at the ends of waits, those for the surest reason first.
pub(crate) fn culprits(search: &Search<'_, '_>, found: &[Culprit]) -> Option<Finding> {
    let (job, graph) = (search.job, search.graph);
    let first = found.first()?;
    let (place, called_ns) = lead(search, first).unwrap_or((first.first(), 0));
    let what = awaited(graph, place);
    // A rank that holds up something else is named after these, also if its reason is the same.
    let is_alike = |one: &&Culprit| {
        let holds_up =
            |vertex: &Vertex| *vertex == place || search.back.get(vertex).is_some_and(|of| of.contains(&place));
        let is_same = || lead(search, one).is_some_and(|(other, _)| awaited(graph, other) == what);
        one.reason == first.reason && (one.vertices.iter().any(holds_up) || is_same())
    };
    let (found, others): (Vec<&Culprit>, Vec<&Culprit>) = found.iter().partition(is_alike);
    let vertices: Vec<Vertex> = found.iter().flat_map(|one| one.vertices.iter().copied()).collect();
    let behind = graph.waiting_for(&vertices, &search.back);
    let blocked: BTreeSet<Actor> = behind.iter().filter_map(|one| graph.actor(*one)).gather();
    let members: Vec<Member> = found.iter().map(|one| one.member).collect();
    let told = match wrong_peer(search, first, place) {
        // A peer that ended the communicator has nothing more to send; any other may just be late.
        Some((told, _)) if first.reason == Reason::Ended => told,
        wrong => {
            let mut told = in_their_call(graph, first, &blocked)
                .unwrap_or_else(|| reason_line(search, first, &members, (place, &what, called_ns)));
            if let Some((_, maybe)) = wrong.filter(|_| told.reason == Reason::NotCalled) {
                told.evidence.push(maybe);
                told.confidence = told.confidence.max(Confidence::Likely);
            }
            told
        }
    };
    let named = told.suspects.as_deref().unwrap_or(&members);
    let own: BTreeSet<Actor> = named.iter().filter_map(|member| job.member(*member)).map(|rank| rank.actor).gather();
    let waiters = members_of(graph, blocked.iter().copied().filter(|actor| !own.contains(actor)));
    let longest_ns = found.iter().map(|one| one.longest_ns).max().unwrap_or(0);
    let ends = if told.says_who_waits { vec![String::new()] } else { waiters_ends(job, &waiters, longest_ns) };
    let line = fit(&told.head, &with_place(job, named, told.reason, ends));
    let chain = chain(graph, search, first);
    let mut evidence = in_program(job, named);
    evidence.extend(told.evidence);
    evidence.extend(chain.iter().filter(|_| chain.len() > 1).cloned());
    evidence.truncate(MOST_EVIDENCE - 1);
    evidence.extend(others.first().map(|one| format!("also: {}", also(search, one))));
    // A rank is listed as the member of the communicator that the line names.
    let comm = match place {
        Vertex::Meeting(meeting) => graph.played.meeting(meeting).map(|meeting| meeting.key.comm()),
        Vertex::Part(part) => graph.played.parts.get(part).map(|part| part.member.0),
        _ => None,
    };
    let in_comm = |one: &Culprit| {
        let mut members = one.vertices.iter().filter_map(|vertex| match vertex {
            Vertex::Member(member) | Vertex::Unsure(member) => Some(*member),
            _ => None,
        });
        members.find(|(of, _)| Some(*of) == comm).unwrap_or(one.member)
    };
    let suspect = |member: Member, blocked: usize| Suspect {
        member,
        reason: told.reason,
        blocked,
        text: line.clone(),
        chain: if member == in_comm(first) || found.len() == 1 { chain.clone() } else { Vec::new() },
    };
    let mut suspects: Vec<Suspect> = match &told.suspects {
        Some(named) => named.iter().map(|member| suspect(*member, first.blocked)).collect(),
        None => {
            // A few stand for all ranks without records.
            let listed =
                found.iter().enumerate().filter(|(at, one)| *at < MOST_MISSING || job.member(one.member).is_some());
            listed.map(|(_, one)| suspect(in_comm(one), one.blocked)).collect()
        }
    };
    suspects.extend(others.iter().map(|one| Suspect {
        member: one.member,
        reason: one.reason,
        blocked: one.blocked,
        text: also(search, one),
        chain: Vec::new(),
    }));
    Some(Finding { reason: told.reason, suspects, line, evidence, confidence: told.confidence, next: told.next })
}

/// What others wait for culprits to call.
fn awaited(graph: &Graph<'_>, place: Vertex) -> String {
    match place {
        Vertex::Meeting(meeting) => {
            graph.played.meeting(meeting).map_or_else(String::new, |meeting| missing_call(graph, meeting))
        }
        Vertex::Part(part) if graph.played.parts.get(part).is_some_and(Part::lacks_peers) => {
            format!("its end of {}", place_name(graph, place))
        }
        _ => place_name(graph, place),
    }
}

/// A culprit for another reason than the first.
fn also(search: &Search<'_, '_>, one: &Culprit) -> String {
    let name = who(search.job, &[one.member]);
    match lead(search, one).filter(|_| one.reason == Reason::NotCalled) {
        Some((place, _)) => {
            format!("{name} {} not called {}", tense(search.job, "has", "had"), awaited(search.graph, place))
        }
        None => format!("{name}: {}", one.reason.name().replace('-', " ")),
    }
}

/// Ranks in a call that makes or ends a communicator, and others wait for them in something else.
fn in_their_call(graph: &Graph<'_>, first: &Culprit, blocked: &BTreeSet<Actor>) -> Option<Told> {
    let job = graph.played.job;
    let (Vertex::Step(step), Reason::Making | Reason::Ending) = (first.first(), first.reason) else { return None };
    let step = graph.steps.get(step)?;
    if blocked.iter().all(|actor| step.callers.contains(actor)) {
        return None;
    }
    let callers = members_of(graph, step.callers.iter().copied());
    let is = tense(job, verb(&callers, "is", "are"), verb(&callers, "was", "were"));
    let does = tense(job, verb(&callers, "does", "do"), "did");
    Some(Told {
        reason: Reason::InTheCall,
        head: format!("{} {is} in {}, which {does} not return", who(job, &callers), step.name),
        confidence: Confidence::Likely,
        next: stacks(job, &callers),
        suspects: Some(callers),
        ..Told::new(Reason::InTheCall)
    })
}

/// The ends of the line with the place in the program of the only suspect, then those without.
fn with_place(job: &Job, named: &[Member], reason: Reason, ends: Vec<String>) -> Vec<String> {
    let ([one], Reason::NotCalled | Reason::InTheCall) = (named, reason) else { return ends };
    let Some(activity) = job.member(*one).map(|rank| &rank.activity) else { return ends };
    let (Some(ranges), Some(innermost)) = (ranges_text(activity), activity.ranges.last()) else { return ends };
    let is = tense(job, "is", "was");
    let mut all = Vec::new();
    for place in [ranges, format!("in `… > {}`", innermost.name)] {
        all.extend(ends.iter().take(2).map(|end| format!(": it {is} {place}{end}")));
    }
    all.extend(ends);
    all
}

/// What is said of culprits.
struct Told {
    reason: Reason,
    head: String,
    says_who_waits: bool,
    evidence: Vec<String>,
    confidence: Confidence,
    next: Option<String>,
    /// The suspects, if they are not those at the end of the waits.
    suspects: Option<Vec<Member>>,
}

impl Told {
    const fn new(reason: Reason) -> Self {
        Self {
            reason,
            head: String::new(),
            says_who_waits: false,
            evidence: Vec::new(),
            confidence: Confidence::Certain,
            next: None,
            suspects: None,
        }
    }
}

fn reason_line(
    search: &Search<'_, '_>,
    first: &Culprit,
    members: &[Member],
    (place, what, called_ns): (Vertex, &str, u64),
) -> Told {
    let step = if let Vertex::Step(step) = place { search.graph.steps.get(step) } else { None };
    match first.reason {
        Reason::Gone => gone(search, first, members, (what, called_ns)),
        reason @ (Reason::Making | Reason::Ending) => made_or_ended(search.graph, reason, step),
        reason => Told {
            head: head(search, first, members, (what, matches!(place, Vertex::Call(_)))),
            says_who_waits: reason == Reason::Running,
            evidence: more_evidence(search, first, members, (what, step)),
            confidence: if matches!((reason, place), (Reason::NotCalled, Vertex::Part(_) | Vertex::Call(_))) {
                Confidence::Likely
            } else {
                confidence(reason, step)
            },
            next: next(search.job, reason, members),
            ..Told::new(reason)
        },
    }
}

/// The suspects, and what they do or do not do.
fn head(search: &Search<'_, '_>, first: &Culprit, members: &[Member], (what, is_call): (&str, bool)) -> String {
    let job = search.job;
    let name = who(job, members);
    let has = tense(job, verb(members, "has", "have"), "had");
    let is = tense(job, verb(members, "is", "are"), verb(members, "was", "were"));
    match first.reason {
        Reason::NeverCame => format!("{name} never reached {what}"),
        Reason::InitFailed => format!("{name} returned from {what} without a communicator, and ended"),
        Reason::GroupOpen => format!("{name} opened a group and {has} not ended it, so {what} is not started"),
        Reason::Stopped => {
            let place =
                if first.is_outside() { format!("and {has} not called {what}") } else { format!("inside {what}") };
            let is = tense(job, "is", "was");
            format!("the process of {name} {is} stopped (by a signal or a debugger) {place}")
        }
        Reason::Ended if first.member.0 < job.comms.len() => {
            format!("{name} {has} ended {} without calling {what}", comm_name(job, first.member.0))
        }
        Reason::Ended => format!("{name} {has} ended without {what}"),
        Reason::NotCalled if is_call => {
            let others = tense(job, "all other ranks are", "all other ranks were");
            format!("{name} {is} outside NCCL, and {others} in {what}")
        }
        Reason::NotCalled => format!("{name} {has} not called {what}"),
        Reason::Silent => format!("{name} {has} not called {what}, according to its records"),
        Reason::Unrecorded => format!("whether {name} called {what} is not recorded"),
        Reason::InTheCall => {
            let does = tense(job, verb(members, "does", "do"), "did");
            format!("{name} {is} in {}, which {does} not return", their_call(search, first))
        }
        Reason::NotBegun => format!("the kernel of {name} for {what} {has} not begun, but those of others have"),
        Reason::Gpu => format!("{name} {is} in {what}, and {} only for its own GPU", tense(job, "waits", "waited")),
        Reason::Running => {
            let end = tense(job, "has not ended", "did not end");
            format!("all ranks called {what} alike, and it {end} for {}", seconds(first.longest_ns))
        }
        Reason::Gone | Reason::Making | Reason::Ending | Reason::Mismatch | Reason::Deadlock => String::new(),
    }
}

/// The call of NCCL that a culprit is in.
fn their_call(search: &Search<'_, '_>, culprit: &Culprit) -> String {
    let actor = search.job.member(culprit.member).map(|rank| rank.actor);
    actor.map_or_else(|| "an NCCL call".to_owned(), |actor| call_name(search.graph, actor))
}

fn more_evidence(
    search: &Search<'_, '_>,
    first: &Culprit,
    members: &[Member],
    (what, step): (&str, Option<&StepCall>),
) -> Vec<String> {
    let job = search.job;
    let name = who(job, members);
    let process = job.process_of_member(first.member);
    let mut lines = Vec::new();
    match first.reason {
        Reason::NeverCame => {
            let it = verb(members, "it is", "they are");
            lines.push(format!("nothing is recorded about {name}, and {it} not in {what}"));
        }
        Reason::NotCalled => {
            if step.is_some_and(|step| !step.is_of_all) {
                lines.push(format!("whether {what} waits for {name} is not recorded"));
            }
            let open = members.iter().filter_map(|member| job.member(*member)).flat_map(|rank| &rank.open_calls);
            let until_ns = process.map_or(job.now_ns, |process| process.until_ns);
            lines.extend(
                open.map(|call| format!("{} for {}", call.what, seconds(until_ns.saturating_sub(call.since_ns)))),
            );
            lines.extend(last_event(job, members));
        }
        Reason::Silent => {
            let ns = process.map_or(0, |process| job.now_ns.saturating_sub(process.last_record_ns));
            lines.push(format!("its process is not visible here, and has recorded nothing for {}", seconds(ns)));
        }
        Reason::InTheCall if !what.is_empty() && !their_call(search, first).ends_with(what) => {
            lines.push(format!("the call starts {what}"));
        }
        _ => {}
    }
    lines
}

fn confidence(reason: Reason, step: Option<&StepCall>) -> Confidence {
    match reason {
        Reason::Silent | Reason::InTheCall => Confidence::Likely,
        // Whether the call waits for the rank is not recorded.
        Reason::NotCalled if step.is_some_and(|step| !step.is_of_all) => Confidence::Likely,
        Reason::Unrecorded => Confidence::CannotTellWhom,
        Reason::NotBegun | Reason::Gpu | Reason::Running => Confidence::BelowCalls,
        _ => Confidence::Certain,
    }
}

fn next(job: &Job, reason: Reason, members: &[Member]) -> Option<String> {
    let process = members.iter().find_map(|member| job.process_of_member(*member));
    let text = match reason {
        Reason::NeverCame => "check whether its process started, and with the plugin",
        Reason::InitFailed => "look for an NCCL error in its output",
        Reason::GroupOpen => "find the missing call of ncclGroupEnd",
        Reason::Stopped => return process.map(|process| format!("kill -CONT {} lets it continue", process.pid)),
        Reason::Ended => "find out why it finished before the others",
        Reason::NotCalled | Reason::InTheCall => return stacks(job, members),
        Reason::Silent => return process.map(|process| format!("look at process {} on {}", process.pid, process.host)),
        Reason::NotBegun | Reason::Gpu => {
            "check what runs on its GPU (nvidia-smi), and look for GPU errors (dmesg: Xid)"
        }
        Reason::Running => {
            "check nvidia-smi, dmesg (Xid) and the network's counters; set NCCL_OTF2_EVENTS=full in \
            the next run"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// A launcher kills ranks one after the other: one that had not called for long was not missed because it was killed.
fn gone(search: &Search<'_, '_>, first: &Culprit, members: &[Member], (what, called_ns): (&str, u64)) -> Told {
    let job = search.job;
    let name = who(job, members);
    let until_ns = job.process_of_member(first.member).map_or(0, |process| process.until_ns);
    let late_ns = until_ns.saturating_sub(called_ns);
    if first.is_outside() && called_ns > 0 && late_ns >= search.after_ns.min(2_000_000_000) {
        let head = format!("{name} had not called {what} for {}, then its process ended", seconds(late_ns));
        let before = seconds(latest_ns(job).saturating_sub(until_ns));
        let evidence = vec![format!("its records end {before} before the last of the others")];
        let next = stacks(job, &[first.member]).map(|stacks| {
            format!(
                "find out from its output why it ended; \
            {stacks}"
            )
        });
        return Told { head, evidence, next, ..Told::new(Reason::NotCalled) };
    }
    let next = "find out why it ended: its output, the batch system's log, dmesg (out of memory)".to_owned();
    let told = Told { next: Some(next), ..Told::new(Reason::Gone) };
    if !first.is_outside() {
        let ended = tense(job, "is gone", "ended");
        return Told { head: format!("the process of {name} {ended} inside {what}"), ..told };
    }
    let head = if job.is_over() {
        let before = seconds(latest_ns(job).saturating_sub(until_ns));
        format!("the records of {name} end {before} before the others'")
    } else {
        format!("the process of {name} is gone")
    };
    let evidence = vec![format!("it was killed, crashed, or ended early, and had not called {what}")];
    Told { head, evidence, ..told }
}

fn latest_ns(job: &Job) -> u64 {
    job.processes.iter().map(|process| process.until_ns).max().unwrap_or(0)
}

/// Ranks in a call that makes or ends a communicator, and nothing says for whom they wait.
fn made_or_ended(graph: &Graph<'_>, reason: Reason, step: Option<&StepCall>) -> Told {
    let job = graph.played.job;
    let mut told = Told { says_who_waits: true, confidence: Confidence::CannotTellWhom, ..Told::new(reason) };
    let Some(step) = step else { return told };
    let waiters = members_of(graph, step.callers.iter().copied());
    let longest_ns = step.waiters.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    let is = tense(job, verb(&waiters, "is", "are"), verb(&waiters, "was", "were"));
    let head = format!("{} {is} in {} for {}", who(job, &waiters), step.name, seconds(longest_ns));
    told.head = format!("{head}; the awaited rank is not recorded");
    told.suspects = Some(waiters);
    match (reason, releases(job)) {
        (Reason::Making, Some(releases)) => {
            told.head = format!("{head}, and the ranks use different NCCL releases");
            told.confidence = Confidence::Likely;
            told.next = Some("start all ranks with the same libnccl".to_owned());
            told.evidence.push(releases);
        }
        (Reason::Making, None) => {
            let next = "set NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP in the next run to see which ranks are \
                missing";
            told.next = Some(next.to_owned());
        }
        _ if job.comms.iter().flat_map(|comm| comm.ranks.values()).any(|rank| rank.has_graphs) => {
            told.evidence.push("a CUDA graph with operations of a communicator keeps it alive".to_owned());
            told.next = Some("destroy CUDA graphs before the communicators that they use".to_owned());
        }
        _ => {}
    }
    told
}

/// When NCCL last called the plugin in the processes of these ranks, unless that is where their recording ends.
fn last_event(job: &Job, members: &[Member]) -> Option<String> {
    const NONE_NS: u64 = 1_000_000;
    let processes = members.iter().filter_map(|member| job.process_of_member(*member));
    let idle = |process: &Process| process.until_ns.checked_sub(process.last_event_ns);
    let idle_ns = processes.filter(|process| process.last_event_ns > 0).filter_map(idle).min()?;
    let whose = verb(members, "its process", "their processes");
    let was = tense(job, "was", "had been");
    (idle_ns >= NONE_NS).then(|| format!("the last NCCL activity of {whose} {was} {} earlier", seconds(idle_ns)))
}

/// A rank waits for a message that its peer never called, and another message of or for that rank waits for its other
/// end. Also returns this as a possibility.
fn wrong_peer(search: &Search<'_, '_>, culprit: &Culprit, place: Vertex) -> Option<(Told, String)> {
    let (job, graph) = (search.job, search.graph);
    let Vertex::Meeting(meeting) = place else { return None };
    let meeting = graph.played.meeting(meeting)?;
    let Key::Message { comm, sender, receiver, .. } = meeting.key else { return None };
    let (rank, _) = meeting.parts.iter().next()?;
    let is_receive = *rank == receiver;
    let is_lost = |other: &&Meeting| match other.key {
        Key::Message { comm: of, sender: from, receiver: to, .. } => {
            of == comm
                && other.parts.len() == 1
                && if is_receive { to == *rank && from != sender } else { from == *rank && to != receiver }
                && !graph.played.others(other).absent.is_empty()
                // A small one may end untaken: that is wrong only if no receive can follow it.
                && (culprit.reason == Reason::Ended
                    || other.parts.values().all(|(part, _)| !graph.played.is_over(*part)))
        }
        Key::Collective(..) => false,
    };
    let lost = graph.played.meetings.iter().find(is_lost)?;
    let Key::Message { sender: from, receiver: to, .. } = lost.key else { return None };
    if !matches!(culprit.reason, Reason::Ended | Reason::NotCalled) {
        return None;
    }
    let me = (comm, *rank);
    let peer = if is_receive { sender } else { receiver };
    let other = if is_receive { from } else { to };
    let [name, peer, other] = [me, (comm, peer), (comm, other)].map(|member| who(job, &[member]));
    let (head, lost, func) = if is_receive {
        (
            format!("{name} receives from {peer}, which never sends to it: maybe a wrong peer"),
            format!("a message from {other} to {name} was not received"),
            "ncclRecv",
        )
    } else {
        (
            format!("{name} sends to {peer}, which never receives from it: maybe a wrong peer"),
            format!("a receive of {other} from {name} has no matching send"),
            "ncclSend",
        )
    };
    let maybe = format!("or {name} passed {func} a wrong peer: {lost}");
    let told = Told {
        head,
        evidence: vec![lost],
        confidence: Confidence::Likely,
        next: Some(format!("check the peer that {name} passes to {func}")),
        suspects: Some(vec![me]),
        ..Told::new(Reason::Mismatch)
    };
    Some((told, maybe))
}

/// The longest path of waits to a culprit, a line for each rank on it.
fn chain(graph: &Graph<'_>, search: &Search<'_, '_>, culprit: &Culprit) -> Vec<String> {
    let job = graph.played.job;
    let mut next: BTreeMap<Vertex, (Vertex, Option<Why>)> =
        culprit.vertices.iter().map(|vertex| (*vertex, (*vertex, None))).collect();
    let mut to_do: VecDeque<Vertex> = culprit.vertices.iter().copied().collect();
    let mut last = culprit.first();
    while let Some(vertex) = to_do.pop_front() {
        last = vertex;
        for from in search.back.get(&vertex).into_iter().flatten() {
            if !next.contains_key(from) {
                let edges = graph.edges.get(from).into_iter().flatten();
                let why = edges.filter(|(to, _)| *to == vertex).map(|(_, why)| *why).next();
                next.insert(*from, (vertex, why));
                to_do.push_back(*from);
            }
        }
    }
    let mut lines = Vec::new();
    let mut at = last;
    while let Some((to, Some(why))) = next.get(&at).copied() {
        if let Vertex::Part(id) = at
            && let Some(part) = graph.played.parts.get(id)
        {
            let wait = tense(job, "waits", "waited");
            let because = match (why, to) {
                (Why::BehindOnStream, Vertex::Part(before)) => {
                    format!(" behind {} on its stream", place_name(graph, Vertex::Part(before)))
                }
                (Why::BehindInComm | Why::BehindOnThread | Why::BehindOnGpu, _) => {
                    format!(" behind {}", place_name(graph, to))
                }
                _ => next
                    .get(&to)
                    .and_then(|(whom, _)| graph.actor(*whom))
                    .map_or_else(String::new, |actor| format!(" for {}", who(job, &members_of(graph, [actor])))),
            };
            let time = seconds(graph.waited_ns(at));
            lines.push(format!("{} {wait} in {} for {time}{because}", who(job, &[part.member]), part_name(job, part)));
        } else if let Vertex::Call(actor) = at {
            let wait = tense(job, "waits", "waited");
            let time = seconds(graph.waited_ns(at));
            lines.push(format!(
                "{} {wait} in {} for {time}",
                who(job, &members_of(graph, [actor])),
                call_name(graph, actor)
            ));
        }
        at = to;
    }
    lines.truncate(4);
    lines
}
