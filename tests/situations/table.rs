//! Situation → verdict.

use serde_json::Value;
use whole_plugin::synthetic::{Disturbance, Job, Operation, play};

use super::script::{Script, time_ns};

/// What `stats` is to say first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Healthy,
    /// A few collectives have half of all waiting, for this rank.
    Pauses(u32),
    Unclear,
    Nothing,
    Cause(&'static str, Suspect),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Suspect {
    Rank(u32),
    Pair(u32, u32),
    Channel(u32),
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) job: Job,
    pub(crate) ranks: Vec<Vec<Operation>>,
    pub(crate) expected: Expected,
    /// What all ranks lost by it.
    pub(crate) lost_ns: Option<u64>,
}

impl Case {
    /// Where what is said differs from the truth.
    pub(crate) fn differs(&self, report: &Value) -> Option<String> {
        let cause = &report["causes"][0];
        let finding = match self.expected {
            Expected::Healthy => "healthy",
            Expected::Pauses(_) => "pauses",
            Expected::Unclear => "unclear",
            Expected::Nothing => "nothing",
            Expected::Cause(..) => "causes",
        };
        let is_it = match self.expected {
            Expected::Cause(kind, who) => {
                let link = &cause["link"];
                let is_who = match who {
                    Suspect::Rank(rank) => cause["rank"] == rank,
                    Suspect::Pair(from, to) => link["from"] == from && link["to"] == to,
                    Suspect::Channel(channel) => link["channel"] == channel,
                };
                cause["kind"] == kind && is_who
            }
            Expected::Pauses(rank) => {
                let sentence = report["verdict"]["line"].as_str().expect("a sentence");
                sentence.ends_with(&format!("all waiting for rank {rank}"))
            }
            _ => report["causes"] == Value::Array(Vec::new()),
        };
        let time_ns = time_ns(&self.ranks);
        let truth = self.lost_ns.map(|ns| ns as f64 / time_ns as f64);
        let share = cause["share"].as_f64().unwrap_or(0.0);
        let is_near = truth.is_none_or(|truth| (share - truth).abs() <= 0.1 * truth);
        let is_right = report["verdict"]["finding"] == finding && is_it && is_near;
        (!is_right).then(|| {
            let sentence = &report["verdict"]["line"];
            format!("{:?} with a share of {truth:?}, but {sentence} and {:#}", self.expected, report["causes"])
        })
    }
}

pub(crate) fn case(script: Script, expected: Expected, lost_ns: Option<u64>) -> Case {
    Case { job: script.job, ranks: script.ranks, expected, lost_ns }
}

pub(crate) const fn late(rank: u32) -> Expected {
    Expected::Cause("late-rank", Suspect::Rank(rank))
}

pub(crate) const MS: u64 = 1_000_000;

/// Rounds of an all-reduce of eight ranks; `before` says what happens before each.
fn rounds(seed: u64, rounds: u64, mut before: impl FnMut(&mut Script, u64)) -> Script {
    let mut script = Script::new(8, seed);
    for round in 0..rounds {
        script.compute(5 * MS, 20_000.0);
        before(&mut script, round);
        script.collective("ncclAllReduce", 0, 2 * MS);
    }
    script
}

/// Groups of sends and receives, then an all-reduce that rank 5 comes 1 ms late to.
pub(crate) fn mixture_of_experts(late_ns: u64) -> Script {
    let mut script = Script::new(8, 1);
    for _ in 0..41 {
        script.compute(2 * MS, 2_000.0);
        script.grouped(0, 3 * MS);
        script.compute(MS / 2, 2_000.0);
        script.late(5, late_ns);
        script.collective("ncclAllReduce", 0, MS);
    }
    script
}

/// A ring with something wrong; what it loses is what the same ring does not.
fn ring(wrong: Disturbance, kind: &'static str, who: Suspect) -> Case {
    let job = Job { noise: 0.02, wrong, ..Job::healthy(70) };
    let ranks = play(&job);
    let without = play(&Job { wrong: Disturbance::Nothing, ..job.clone() });
    let lost_ns = time_ns(&ranks) - time_ns(&without);
    Case { job, ranks, expected: Expected::Cause(kind, who), lost_ns: Some(lost_ns) }
}

fn healthy_ring(job: Job, expected: Expected) -> Case {
    Case { ranks: play(&job), job, expected, lost_ns: None }
}

pub(crate) type Situation = (&'static str, fn() -> Case);

pub(crate) const ALL: [Situation; 28] = [
    ("a rank late to the all-reduce of a mixture of experts", || {
        case(mixture_of_experts(MS), late(5), Some(40 * 7 * MS))
    }),
    ("a mixture of experts", || case(mixture_of_experts(0), Expected::Healthy, None)),
    ("a rank that is late all the time", || {
        case(rounds(2, 61, |script, _| script.late(3, MS)), late(3), Some(60 * 7 * MS))
    }),
    ("a rank that is late from half-way on", || {
        let late_later = |script: &mut Script, round| script.late(3, if round > 30 { MS } else { 0 });
        case(rounds(3, 61, late_later), late(3), Some(30 * 7 * MS))
    }),
    ("a rank that is late to a third of the collectives", || {
        let script = rounds(4, 24, |script, round| script.late(7, if round % 3 == 1 { 15 * MS } else { 0 }));
        case(script, late(7), Some(8 * 7 * 15 * MS))
    }),
    ("two ranks that are late in turn", || {
        let in_turn = |script: &mut Script, round| match round % 3 {
            0 => script.late(6, 3 * MS),
            1 => script.late(2, 2 * MS),
            _ => {}
        };
        // The first round is warm-up. What the other late rank waits is not lost.
        case(rounds(5, 91, in_turn), late(6), Some(30 * 6 * 3 * MS))
    }),
    ("a rank that is late as a rule, and one that stalls once for longer", || {
        let script = rounds(6, 61, |script, round| {
            script.late(if round == 30 { 1 } else { 4 }, if round == 30 { 500 } else { 1 } * MS)
        });
        case(script, late(4), Some(59 * 7 * MS))
    }),
    ("a rank that stalls once", || {
        case(
            rounds(7, 61, |script, round| script.late(1, if round == 30 { 100 * MS } else { 0 })),
            Expected::Pauses(1),
            None,
        )
    }),
    ("a rank that is late three times a round, in which all ranks make communicators for seconds", || {
        let script = rounds(19, 48, |script, round| match round % 4 {
            0 => script.compute(4_000 * MS, 20_000.0),
            _ => script.late(3, 80 * MS),
        });
        case(script, late(3), Some(36 * 7 * 80 * MS))
    }),
    ("a rank that is late to a fourth of the collectives, and slightly to the others towards the end", || {
        let script = rounds(20, 121, |script, round| match (round % 4, round) {
            (1, _) => script.late(3, 20 * MS),
            (_, 72..) => script.late(3, MS / 5),
            _ => {}
        });
        case(script, late(3), Some(7 * (30 * 20 * MS + 37 * MS / 5)))
    }),
    ("each collective has another late rank, by chance", || {
        let anyone = |script: &mut Script, _| {
            let rank = script.any(8);
            script.late(rank, 3 * MS);
        };
        case(rounds(8, 200, anyone), Expected::Healthy, None)
    }),
    ("each ten collectives have another late rank, by chance", || {
        let mut rank = 0;
        let anyone = move |script: &mut Script, round| {
            rank = if round % 10 == 0 { script.any(8) } else { rank };
            script.late(rank, 3 * MS);
        };
        case(rounds(9, 400, anyone), Expected::Healthy, None)
    }),
    ("nothing", || case(rounds(10, 100, |_, _| {}), Expected::Healthy, None)),
    ("a rank that is late by less than 2 %", || {
        case(rounds(11, 100, |script, _| script.late(3, 40_000)), Expected::Healthy, None)
    }),
    ("the first collective takes a second", || {
        case(
            rounds(12, 40, |script, round| script.late(3, if round == 0 { 1_000 * MS } else { 0 })),
            Expected::Healthy,
            None,
        )
    }),
    ("the root of broadcasts comes late", || {
        let mut script = Script::new(8, 13);
        for _ in 0..41 {
            script.compute(5 * MS, 20_000.0);
            script.late(2, 2 * MS);
            script.rooted("ncclBroadcast", 2, 2 * MS);
        }
        case(script, late(2), Some(40 * 7 * 2 * MS))
    }),
    ("a rank comes late to reduces", || {
        let mut script = Script::new(8, 14);
        for _ in 0..41 {
            script.compute(5 * MS, 20_000.0);
            script.late(6, 2 * MS);
            script.rooted("ncclReduce", 0, 2 * MS);
        }
        // Only the root waits.
        case(script, late(6), Some(40 * 2 * MS))
    }),
    ("a rank comes late to the collectives of its group", || {
        let mut script = Script::new(8, 15);
        let groups = [[0, 1, 2, 3], [4, 5, 6, 7]].map(|ranks| script.communicator(&ranks));
        for _ in 0..61 {
            script.compute(5 * MS, 20_000.0);
            script.late(6, 2 * MS);
            groups.iter().for_each(|group| script.collective("ncclAllGather", *group, 2 * MS));
        }
        case(script, late(6), Some(60 * 3 * 2 * MS))
    }),
    ("the collectives of a rank end later than those of others, which wait for it in the next one", || {
        let mut script = rounds(17, 1, |_, _| {});
        for _ in 0..60 {
            script.transfers_longer(2, 3 * MS);
            script.compute(MS, 20_000.0);
            script.collective("ncclAllReduce", 0, 2 * MS);
        }
        case(script, Expected::Healthy, None)
    }),
    ("the collectives of a rank end later, and another rank is late", || {
        let mut script = rounds(18, 1, |_, _| {});
        for _ in 0..60 {
            script.transfers_longer(2, MS);
            script.compute(3 * MS, 20_000.0);
            script.late(5, 4 * MS);
            script.collective("ncclAllReduce", 0, 2 * MS);
        }
        // Without rank 5, the others would wait for rank 2 for 1 ms.
        case(script, late(5), Some(60 * (6 * 3 + 3) * MS))
    }),
    ("a pipeline of sends whose last stage comes late to the all-reduce", || {
        let mut script = Script::new(4, 16);
        for _ in 0..61 {
            script.compute(MS, 5_000.0);
            (0..3).for_each(|rank| script.send(rank, rank + 1, MS));
            script.late(3, 2 * MS);
            script.collective("ncclAllReduce", 0, 2 * MS);
        }
        case(script, late(3), Some(60 * 3 * 2 * MS))
    }),
    ("a slow pair", || {
        ring(Disturbance::SlowPair { from: 3, latency: 3.0, time: 2.0 }, "slow-pair", Suspect::Pair(3, 4))
    }),
    ("a slow network interface", || ring(Disturbance::SlowNic { rank: 3, factor: 2.5 }, "slow-nic", Suspect::Rank(3))),
    ("a slow channel", || {
        ring(Disturbance::SlowChannel { channel: 2, from: 0, factor: 2.5 }, "slow-channel", Suspect::Channel(2))
    }),
    ("clocks of unknown error", || healthy_ring(Job { error_ns: Some(None), ..Job::healthy(71) }, Expected::Healthy)),
    ("nothing but enqueueing is known", || {
        healthy_ring(Job { timing: "enqueue", ..Job::healthy(72) }, Expected::Unclear)
    }),
    ("a rank is not recorded for the most part", || {
        healthy_ring(Job { last_rank_has: Some(20), ..Job::healthy(73) }, Expected::Unclear)
    }),
    ("a single rank", || healthy_ring(Job { ranks: 1, ..Job::healthy(74) }, Expected::Nothing)),
];
