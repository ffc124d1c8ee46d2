//! Programs of groups, communicators and streams, played on simulated GPUs: the engine must say that ranks wait for
//! each other exactly where the simulation is stuck.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::graph::Reason;
use crate::judge::Judgement;

/// A call of a program, in a communicator by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    Collective {
        comm: char,
        func: &'static str,
        stream: u64,
    },
    Message {
        comm: char,
        peer: u32,
        is_send: bool,
        stream: u64,
    },
    GroupStart,
    GroupEnd,
    /// The host waits for all that its GPU was given.
    Synchronize,
}

use Instruction::{Collective, GroupEnd, GroupStart, Synchronize};

/// `A.ar` is an all-reduce in communicator A on stream 1, `B.ag@2` an all-gather on stream 2, `A.s2` a send to its rank
/// 2, `A.r0` a receive from its rank 0; a group is in parentheses.
pub(super) fn parse(text: &str) -> Vec<Instruction> {
    let one = |word: &str| {
        let (word, stream) =
            word.split_once('@').map_or((word, 1), |(word, stream)| (word, stream.parse().expect("a stream")));
        let Some((comm, what)) = word.split_once('.') else {
            return match word {
                "(" => GroupStart,
                ")" => GroupEnd,
                "sync" => Synchronize,
                other => panic!("{other}"),
            };
        };
        let comm = comm.chars().next().expect("a letter");
        match what {
            "ar" => Collective { comm, func: "AllReduce", stream },
            "ag" => Collective { comm, func: "AllGather", stream },
            "bc" => Collective { comm, func: "Broadcast", stream },
            _ => Instruction::Message {
                comm,
                peer: what[1..].parse().expect("a rank"),
                is_send: what.starts_with('s'),
                stream,
            },
        }
    };
    text.split_whitespace().map(one).collect()
}

/// The calls of one group in one communicator: one kernel.
#[derive(Clone, Debug)]
struct Kernel {
    comm: char,
    streams: BTreeSet<u64>,
    /// Index of the instruction, and what it waits for.
    calls: Vec<(usize, Wait)>,
    group: u64,
    has_ended: bool,
}

/// What a call waits for: the k-th collective of a communicator, or the k-th message of a pair.
type Wait = (char, Option<(u32, u32)>, usize);

/// A host and its GPU.
#[derive(Clone, Debug, Default)]
struct Simulated {
    next: usize,
    kernels: Vec<Kernel>,
    counts: BTreeMap<(char, Option<(u32, u32)>), usize>,
}

pub(super) struct Simulation {
    programs: Vec<Vec<Instruction>>,
    ranks: Vec<Simulated>,
}

impl Simulation {
    pub(super) fn new(programs: Vec<Vec<Instruction>>) -> Self {
        let ranks = vec![Simulated::default(); programs.len()];
        let mut simulation = Self { programs, ranks };
        while simulation.hosts() | simulation.gpus() {}
        simulation
    }

    /// The ranks that use a communicator, in order: a rank's number in it is its place.
    fn members(&self, comm: char) -> Vec<usize> {
        let uses = |program: &Vec<Instruction>| {
            program.iter().any(|one| match one {
                Collective { comm: of, .. } | Instruction::Message { comm: of, .. } => *of == comm,
                _ => false,
            })
        };
        self.programs.iter().enumerate().filter(|(_, program)| uses(program)).map(|(rank, _)| rank).collect()
    }

    fn number(&self, rank: usize, comm: char) -> u32 {
        self.members(comm).iter().position(|one| *one == rank).expect("a member").try_into().expect("few ranks")
    }

    pub(super) fn is_stuck(&self) -> bool {
        let is_through = |(rank, program): (&Simulated, &Vec<Instruction>)| rank.next == program.len();
        !self.ranks.iter().zip(&self.programs).all(is_through)
            || self.ranks.iter().flat_map(|rank| &rank.kernels).any(|kernel| !kernel.has_ended)
    }

    /// Lets each host run as far as it can; whether one did.
    fn hosts(&mut self) -> bool {
        let mut moved = false;
        for rank in 0..self.ranks.len() {
            while let Some(instruction) = self.programs[rank].get(self.ranks[rank].next).copied() {
                if instruction == Synchronize && self.ranks[rank].kernels.iter().any(|kernel| !kernel.has_ended) {
                    break;
                }
                let first = self.ranks[rank].next;
                let mut last = first;
                if instruction == GroupStart {
                    while self.programs[rank][last] != GroupEnd {
                        last += 1;
                    }
                }
                self.launch(rank, first..=last);
                self.ranks[rank].next = last + 1;
                moved = true;
            }
        }
        moved
    }

    fn launch(&mut self, rank: usize, instructions: std::ops::RangeInclusive<usize>) {
        let group = *instructions.start() as u64;
        let mut kernels: BTreeMap<char, Kernel> = BTreeMap::new();
        for at in instructions {
            let (comm, pair, stream) = match self.programs[rank][at] {
                Collective { comm, stream, .. } => (comm, None, stream),
                Instruction::Message { comm, peer, is_send, stream } => {
                    let own = self.number(rank, comm);
                    (comm, Some(if is_send { (own, peer) } else { (peer, own) }), stream)
                }
                _ => continue,
            };
            let count = self.ranks[rank].counts.entry((comm, pair)).or_default();
            let wait = (comm, pair, *count);
            *count += 1;
            let new = || Kernel { comm, streams: BTreeSet::new(), calls: Vec::new(), group, has_ended: false };
            let kernel = kernels.entry(comm).or_insert_with(new);
            kernel.streams.insert(stream);
            kernel.calls.push((at, wait));
        }
        self.ranks[rank].kernels.extend(kernels.into_values());
    }

    /// Whether nothing before it is on its streams or in its communicator.
    fn runs(&self, rank: usize, kernel: usize) -> bool {
        let (before, [own, ..]) = self.ranks[rank].kernels.split_at(kernel) else { return false };
        let is_in_the_way = |other: &Kernel| other.comm == own.comm || !other.streams.is_disjoint(&own.streams);
        !before.iter().any(|other| !other.has_ended && is_in_the_way(other))
    }

    fn has_begun(&self, rank: usize, wait: Wait) -> bool {
        let mut kernels = self.ranks[rank].kernels.iter().enumerate();
        kernels.any(|(at, kernel)| {
            kernel.calls.iter().any(|(_, one)| *one == wait) && (kernel.has_ended || self.runs(rank, at))
        })
    }

    fn gpus(&mut self) -> bool {
        let mut ended = Vec::new();
        for (rank, simulated) in self.ranks.iter().enumerate() {
            for (at, kernel) in simulated.kernels.iter().enumerate().filter(|(_, kernel)| !kernel.has_ended) {
                let members = self.members(kernel.comm);
                let have_all_begun = |(_, wait): &(usize, Wait)| {
                    let needed: Vec<usize> = match wait.1 {
                        None => members.clone(),
                        Some((sender, receiver)) => [sender, receiver].map(|rank| members[rank as usize]).to_vec(),
                    };
                    needed.into_iter().all(|rank| self.has_begun(rank, *wait))
                };
                if self.runs(rank, at) && kernel.calls.iter().all(have_all_begun) {
                    ended.push((rank, at));
                }
            }
        }
        ended.iter().for_each(|(rank, at)| self.ranks[*rank].kernels[*at].has_ended = true);
        !ended.is_empty()
    }

    /// What a recording of the job has, with or without the ends of operations.
    pub(super) fn recorded(&self, shows_ends: bool) -> Job {
        let comms: BTreeSet<char> =
            self.ranks.iter().flat_map(|rank| &rank.kernels).map(|kernel| kernel.comm).collect();
        let comms = comms.into_iter().map(|letter| {
            let members = self.members(letter);
            let ranks = members.iter().zip(0..).map(|(rank, number)| (number, self.rank(*rank, letter, shows_ends)));
            comm(&letter.to_string(), members.len().try_into().expect("few ranks"), ranks.collect())
        });
        let mut job = job(self.programs.len(), comms.collect());
        for (rank, process) in (0..).zip(&mut job.processes) {
            (process.launcher_rank, process.launcher_size) = (Some(rank), u32::try_from(self.programs.len()).ok());
        }
        job.number();
        job
    }

    fn rank(&self, rank: usize, letter: char, shows_ends: bool) -> Rank {
        let mut found = super::rank(rank, Vec::new());
        let kernels = self.ranks[rank].kernels.iter().filter(|kernel| kernel.comm == letter);
        for (kernel, at) in kernels.flat_map(|kernel| kernel.calls.iter().map(move |(at, _)| (kernel, *at))) {
            let called_ns = NOW_NS - 60 * SECOND_NS + at as u64 * 1_000_000;
            let stage = if kernel.has_ended && shows_ends { Stage::Done } else { Stage::Launched };
            let ended_ns = (stage == Stage::Done).then_some(called_ns + 1);
            let progress = Progress { stage, ended_ns, shows_end: shows_ends, ..Progress::default() };
            let place = |stream: u64| Place {
                group: Some((kernel.group, 0)),
                stream: Some(stream),
                thread: Some(0),
                launched_ns: Some(NOW_NS - 60 * SECOND_NS + kernel.group * 1_000_000 + 1),
                is_group_open: false,
            };
            match self.programs[rank][at] {
                Collective { func, stream, .. } => found.calls.list.push(Call {
                    what: Signature {
                        func: func.into(),
                        count: 8,
                        datatype: "ncclFloat32".into(),
                        bytes: Some(32),
                        ..Signature::default()
                    },
                    from_api: true,
                    sequence: None,
                    by_copy_engine: false,
                    entered_ns: called_ns,
                    place: place(stream),
                    progress,
                }),
                Instruction::Message { peer, is_send, stream, .. } => {
                    let number = found.message_counts.entry((peer, is_send)).or_default();
                    found.messages.push(Message {
                        number: std::mem::replace(number, *number + 1),
                        entered_ns: called_ns,
                        place: place(stream),
                        progress,
                        ..message(peer, is_send, stage)
                    });
                }
                _ => {}
            }
        }
        found
    }
}

/// What is said of programs, one for each rank.
pub(super) fn line(programs: &[&str]) -> Report {
    judge(&Simulation::new(programs.iter().map(|text| parse(text)).collect()).recorded(true))
}

fn judged(job: &Job) -> Judgement {
    crate::judge::judge(job, AFTER_NS)
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("below a usize")
    }
}

/// A job of random operations that all members call, in orders that differ now and then.
fn random_programs(random: &mut Random) -> Vec<Vec<Instruction>> {
    let ranks = 2 + random.below(4);
    let comms: Vec<(char, Vec<usize>)> = (b'A'..b'A' + [1, 2, 3][random.below(3)])
        .map(|letter| {
            let mut members: Vec<usize> = (0..ranks).filter(|_| random.below(4) > 0).collect();
            if members.len() < 2 {
                members = (0..ranks).collect();
            }
            (letter as char, members)
        })
        .collect();
    // All members use a communicator: that is how the simulation knows them.
    let mut programs: Vec<Vec<Vec<Instruction>>> = vec![Vec::new(); ranks];
    for (comm, members) in &comms {
        for rank in members {
            programs[*rank].push(vec![Collective { comm: *comm, func: "AllReduce", stream: 1 }]);
        }
    }
    for _ in 0..2 + random.below(8) {
        let (comm, members) = &comms[random.below(comms.len())];
        let stream = 1 + random.below(2) as u64;
        if random.below(3) > 0 {
            for rank in members {
                programs[*rank].push(vec![Collective { comm: *comm, func: "AllReduce", stream }]);
            }
            continue;
        }
        let (one, other) = (random.below(members.len()), random.below(members.len()));
        if one == other {
            continue;
        }
        let message = |peer: usize, is_send| Instruction::Message {
            comm: *comm,
            peer: peer.try_into().expect("few ranks"),
            is_send,
            stream,
        };
        let (a, b) = (message(other, true), message(other, false));
        let (c, d) = (message(one, true), message(one, false));
        let is_grouped = random.below(2) > 0;
        let grouped = |one, two| vec![GroupStart, one, two, GroupEnd];
        if is_grouped {
            programs[members[one]].push(grouped(a, b));
            programs[members[other]].push(grouped(c, d));
        } else {
            programs[members[one]].extend([vec![a], vec![b]]);
            programs[members[other]].extend([vec![d], vec![c]]);
        }
    }
    for program in &mut programs {
        if program.len() > 1 && random.below(3) == 0 {
            let at = random.below(program.len() - 1);
            program.swap(at, at + 1);
        }
        if !program.is_empty() && random.below(2) == 0 {
            program.insert(random.below(program.len()), vec![Synchronize]);
        }
    }
    programs.into_iter().map(|program| program.concat()).collect()
}

#[test]
fn ranks_wait_for_each_other_exactly_where_the_simulation_is_stuck() {
    let (mut stuck, mut through) = (0, 0);
    for seed in 0..2000 {
        let programs = random_programs(&mut Random(seed));
        let simulation = Simulation::new(programs.clone());
        for shows_ends in [true, false] {
            let judgement = judged(&simulation.recorded(shows_ends));
            let found = judgement.hang.as_ref().map(|finding| (finding.reason, finding.line.clone()));
            // Without ends a send may be complete, as a small one is.
            let is_known =
                shows_ends || !programs.iter().flatten().any(|one| matches!(one, Instruction::Message { .. }));
            if simulation.is_stuck() {
                stuck += 1;
                let is_deadlock = found.as_ref().is_some_and(|(reason, _)| *reason == Reason::Deadlock);
                assert!(is_deadlock || !is_known, "{seed} {shows_ends}: {found:?} {programs:#?}");
            } else {
                through += 1;
                assert_eq!(found, None, "{seed} {shows_ends}: {programs:#?}");
            }
        }
    }
    assert!(stuck > 300 && through > 300, "{stuck} {through}");
}
