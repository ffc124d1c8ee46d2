//! Ranks that wait for each other, or could: the line, and what each of them is in.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::Explanation;
use crate::graph::parts::{Described, Part, PartId};
use crate::graph::play::Rule;
use crate::graph::{Graph, Reason, Vertex};
use crate::job::{Actor, Member};
use crate::judge::{Confidence, Finding, Suspect};
use crate::report::explain::{Order, explain_order};
use crate::report::sentences::tense;
use crate::report::words::{MOST_EVIDENCE, call_name, comm_name, fit, members_of, part_name, seconds, who};
use nccl_events::sort::Gather;

/// Ranks that wait for each other, as the graph has them.
struct Cycle<'a, 'b> {
    graph: &'b Graph<'a>,
    parts: Vec<(PartId, &'a Part)>,
    /// What each rank is in.
    heads: Vec<(PartId, &'a Part)>,
    /// The calls of ranks that have no part.
    calls: Vec<(Actor, String)>,
    actors: BTreeSet<Actor>,
}

/// How a cycle is told.
struct Told {
    head: String,
    ends: Vec<String>,
    next: String,
    suspects: Vec<Member>,
    confidence: Confidence,
}

impl<'a, 'b> Cycle<'a, 'b> {
    fn new(graph: &'b Graph<'a>, component: &[Vertex]) -> Self {
        let parts = component.iter().filter_map(|vertex| match vertex {
            Vertex::Part(id) => Some((*id, graph.played.parts.get(*id)?)),
            _ => None,
        });
        let parts: Vec<(PartId, &Part)> = parts.collect();
        let heads = parts.iter().copied().filter(|(id, part)| graph.played.is_first(*id) || !part.is_enqueued());
        let heads: Vec<(PartId, &Part)> = heads.collect();
        let actors: BTreeSet<Actor> = component.iter().filter_map(|vertex| graph.actor(*vertex)).gather();
        let in_calls = component.iter().filter_map(|vertex| match vertex {
            Vertex::Call(actor) if !heads.iter().any(|(_, part)| part.actor == *actor) => Some(*actor),
            _ => None,
        });
        let calls = in_calls.map(|actor| (actor, call_name(graph, actor))).collect();
        Self { graph, parts, heads, calls, actors }
    }

    fn everyone(&self) -> Vec<Member> {
        members_of(self.graph, self.actors.iter().copied())
    }

    /// What each rank is in, and what is behind it.
    fn evidence(&self) -> Vec<String> {
        let job = self.graph.played.job;
        let is = tense(job, "is", "was");
        let of_part = |(_, part): &(PartId, &Part)| {
            let behind =
                self.parts.iter().filter(|(id, other)| other.actor == part.actor && !self.graph.played.is_first(*id));
            let behind: Vec<String> = behind.map(|(_, other)| part_name(job, other)).collect();
            let then = match behind.as_slice() {
                [] => String::new(),
                [first] => format!("; behind it: {first}"),
                [first, rest @ ..] => format!("; behind it: {first} and {} more", rest.len()),
            };
            format!("{} {is} in {}{then}", who(job, &[part.member]), part_name(job, part))
        };
        let of_call =
            |(actor, call): &(Actor, String)| format!("{} {is} in {call}", who(job, &members_of(self.graph, [*actor])));
        let mut lines: Vec<String> = self.heads.iter().map(of_part).chain(self.calls.iter().map(of_call)).collect();
        lines.truncate(MOST_EVIDENCE);
        lines
    }

    /// Whether all that ranks are in is of one kind.
    fn are_all(&self, is_one: impl Fn(Described<'_>) -> bool) -> bool {
        let job = self.graph.played.job;
        let operations = self.heads.iter().flat_map(|(_, part)| part.operations.iter().map(|one| (part.member, *one)));
        let mut described = operations.map(|(member, operation)| job.described(member, operation));
        !self.heads.is_empty() && self.calls.is_empty() && described.all(|call| call.is_some_and(&is_one))
    }

    fn told(&self, confidence: Confidence) -> Told {
        let job = self.graph.played.job;
        let everyone = self.everyone();
        let head = format!("{} {} for each other", who(job, &everyone), tense(job, "wait", "waited"));
        let told =
            |ends: Vec<String>, next: &str| Told { head, ends, next: next.to_owned(), suspects: everyone, confidence };
        let comms: BTreeSet<usize> = self.parts.iter().map(|(_, part)| part.member.0).gather();
        if self.are_all(|call| matches!(call, Described::Message(message) if message.is_send)) {
            let ends = [": each sends before it receives, and no receive begins", ": each sends before it receives"];
            let next = "let one rank of each pair receive first, or put ncclSend and ncclRecv into one group";
            return told(ends.map(str::to_owned).to_vec(), next);
        }
        if self.are_all(|call| matches!(call, Described::Message(_))) {
            let ends = vec![", in a cycle of messages".to_owned()];
            return told(ends, "compare the order of sends and receives on these ranks");
        }
        if self.are_all(|call| matches!(call, Described::Collective(_))) && comms.len() > 1 {
            if let Some(order) = explain_order(self.graph, &self.actors, &comms) {
                return self.told_by_order(order, confidence);
            }
            let ends = vec![format!(": they use {} communicators in different orders", comms.len())];
            return told(ends, SAME_ORDER);
        }
        // In full, or by the functions alone.
        let ends = vec![self.places(|place| place), self.places(|place| place.split(' ').next().unwrap_or(place))];
        let names: BTreeSet<&str> = self.calls.iter().map(|(_, name)| name.as_str()).gather();
        match names.into_iter().collect::<Vec<_>>().as_slice() {
            // Ranks in one call, and others in operations.
            [name] if !self.heads.is_empty() && name.starts_with("nccl") => {
                let inside: BTreeSet<Actor> = self.calls.iter().map(|(actor, _)| *actor).gather();
                let outside = self.actors.iter().copied().filter(|actor| !inside.contains(actor));
                let outside = who(job, &members_of(self.graph, outside));
                told(ends, &format!("find out why {outside} did not call {name} before: all ranks must make that call"))
            }
            _ => told(ends, "compare the order of these calls on these ranks"),
        }
    }

    /// Which ranks are in what.
    fn places(&self, name: fn(&str) -> &str) -> String {
        let job = self.graph.played.job;
        let mut places: BTreeMap<String, BTreeSet<Member>> = BTreeMap::new();
        for (_, part) in &self.heads {
            places.entry(part_name(job, part)).or_default().insert(part.member);
        }
        for (actor, call) in &self.calls {
            places.entry(call.clone()).or_default().extend(members_of(self.graph, [*actor]));
        }
        let places = places.iter().map(|(place, members)| {
            let members: Vec<Member> = members.iter().copied().collect();
            format!("{} in {}", who(job, &members), name(place))
        });
        format!(": {}", places.collect::<Vec<_>>().join(", "))
    }

    /// The ranks whose calls differ from those of the others.
    fn told_by_order(&self, order: Order, confidence: Confidence) -> Told {
        let job = self.graph.played.job;
        let Order { deviants, others, comm, function, kind, is_likely } = order;
        let (name, of, others) = (who(job, &deviants), comm_name(job, comm), who(job, &others));
        let (head, next) = match kind {
            Explanation::LeftOut => {
                (format!("{name} left out one {function} of {of}"), "find out why this call was not made")
            }
            Explanation::OneTooMany => {
                (format!("{name} made one {function} of {of} too many"), "find out why this call was made")
            }
            Explanation::Swapped => {
                (format!("{name} used communicators in a different order than {others}"), SAME_ORDER)
            }
            Explanation::OnlyThis => (
                format!("{name} and {others} differ by one {function} of {of}"),
                "compare the code paths of the program on these ranks",
            ),
        };
        let everyone = self.everyone();
        let (all, wait) = (who(job, &everyone), tense(job, "wait", "waited"));
        Told {
            head,
            ends: vec![format!("; now {all} {wait} for each other"), format!("; {all} {wait}")],
            next: next.to_owned(),
            confidence: match kind {
                Explanation::OnlyThis => Confidence::CannotTellWhom,
                _ if is_likely => confidence.max(Confidence::Likely),
                _ => confidence,
            },
            suspects: if kind == Explanation::OnlyThis { everyone } else { deviants },
        }
    }
}

const SAME_ORDER: &str = "use the communicators in the same order on all ranks";

/// Ranks that wait for each other.
pub(crate) fn deadlock(
    graph: &Graph<'_>,
    component: &[Vertex],
    confidence: Confidence,
    longest_ns: Option<u64>,
) -> Finding {
    let cycle = Cycle::new(graph, component);
    let Told { head, ends, next, suspects, confidence } = cycle.told(confidence);
    let waited = longest_ns.map_or_else(String::new, |ns| format!(", for {}", seconds(ns)));
    let mut all_ends: Vec<String> = ends.iter().map(|end| format!("{end}{waited}")).collect();
    all_ends.extend(ends);
    all_ends.push(String::new());
    let line = fit(&head, &all_ends);
    let blocked = cycle.actors.len();
    let suspect =
        |member: Member| Suspect { member, reason: Reason::Deadlock, blocked, text: line.clone(), chain: Vec::new() };
    Finding {
        reason: Reason::Deadlock,
        suspects: suspects.into_iter().map(suspect).collect(),
        evidence: cycle.evidence(),
        confidence,
        next: Some(next),
        line,
    }
}

/// What only buffers, or kernels that ran at the same time, let through.
pub(crate) fn unsafe_order(graph: &Graph<'_>, component: &[Vertex], rule: Rule) -> Finding {
    let mut finding = deadlock(graph, component, Confidence::Certain, None);
    let is_buffered = rule == Rule::AsGuaranteed;
    let actors: BTreeSet<Actor> = component.iter().filter_map(|vertex| graph.actor(*vertex)).gather();
    let job = graph.played.job;
    let ranks = who(job, &members_of(graph, actors));
    let head = format!("{ranks} may wait for each other forever");
    let (how, why) = if is_buffered {
        (": each sends before it receives", "NCCL buffered the messages")
    } else {
        (": they use communicators in different orders", "the kernels ran at the same time")
    };
    finding.line = fit(&head, &[format!("{how}; now {why}"), how.to_owned(), String::new()]);
    finding.evidence.insert(0, format!("this time they finished because {why}, which NCCL does not guarantee"));
    finding.evidence.truncate(MOST_EVIDENCE);
    finding.suspects.iter_mut().for_each(|suspect| suspect.text.clone_from(&finding.line));
    finding
}
