//! Who is late in simulated jobs, against the same jobs without what was planted.

use super::kernels::{Kernels, covered_ns};
use super::late::Lateness;
use super::replay::Replay;
use super::simulation::{MS, Random, Simulation};
use crate::units::real;
use nccl_events::collective::Flow;

/// The time of each rank in operations.
fn in_operations(kernels: &Kernels) -> Vec<f64> {
    let of_rank = |range: &std::ops::Range<usize>| {
        let all = kernels.all[range.clone()].iter();
        covered_ns(&mut all.map(|kernel| (real(kernel.start_ns), real(kernel.stop_ns))).collect::<Vec<_>>())
    };
    kernels.ranks.iter().map(of_rank).collect()
}

fn judge(simulation: &Simulation) -> Lateness {
    let kernels = simulation.kernels();
    let operations_ns = in_operations(&kernels).iter().sum();
    Lateness::new(&kernels, operations_ns)
}

fn late(lateness: &Lateness) -> Vec<u32> {
    lateness.late.ranks.iter().map(|late| late.rank).collect()
}

/// A job whose ranks work for 5 ms and meet, with this in addition, as a part of the work.
fn rounds(ranks: usize, rounds: u64, jitter: f64, mut more: impl FnMut(u64, usize, &mut Random) -> f64) -> Simulation {
    let mut simulation = Simulation::new(ranks);
    let world = simulation.communicator(0..ranks);
    let (mut random, mut other) = (Random::new(5), Random::new(99));
    for round in 0..rounds {
        for rank in 0..ranks {
            let work = 5.0 * MS * (1.0 + jitter * random.exponential());
            simulation.work(rank, work + 5.0 * MS * more(round, rank, &mut other));
        }
        simulation.collective(world, MS);
    }
    simulation
}

#[test]
fn a_replay_without_changes_is_the_recording() {
    let mut simulation = Simulation::new(4);
    let (world, pair) = (simulation.communicator(0..4), simulation.communicator([1, 3]));
    let mut random = Random::new(3);
    for round in 0..50_u64 {
        for rank in 0..4 {
            simulation.work(rank, MS * random.exponential());
        }
        let flow = [Flow::AllToAll, Flow::FromRoot, Flow::ToRoot][usize::try_from(round % 3).expect("small")];
        simulation.collective_on(world, 0, flow, 2, 0.3 * MS, round % 5 == 0);
        simulation.collective_on(pair, 1, Flow::AllToAll, 0, 0.7 * MS, false);
        simulation.message(world, (round % 4) as usize, ((round + 1) % 4) as usize, 0.1 * MS, round % 2 == 0);
    }
    for simulation in [simulation.clone(), simulation.shifted(&[0, 0, 50_000_000, 50_000_000], None)] {
        let kernels = simulation.kernels();
        for (kernel, (start, stop)) in kernels.all.iter().zip(Replay::new(&kernels).times(&[])) {
            assert!((start - real(kernel.start_ns)).abs() < 2.0, "{kernel:?} {start}");
            assert!((stop - real(kernel.stop_ns)).abs() < 2.0, "{kernel:?} {stop}");
        }
    }
}

type Shape = (&'static str, fn(u64, &mut Random) -> f64);

/// When a rank takes longer, by how many times as much as on average.
const SHAPES: [Shape; 5] = [
    ("always", |_, _| 1.0),
    ("from half-way on", |round, _| if round >= 60 { 2.0 } else { 0.0 }),
    ("each tenth round", |round, _| if round % 10 == 9 { 10.0 } else { 0.0 }),
    ("the last twelfth", |round, _| if round >= 110 { 12.0 } else { 0.0 }),
    ("a random quarter", |_, random| if random.uniform() < 0.25 { 4.0 } else { 0.0 }),
];

#[test]
fn a_late_rank_is_named_with_what_the_others_lose() {
    for (name, shape) in SHAPES {
        for more in [0.05, 0.1, 0.3] {
            let job = |more: f64| {
                rounds(8, 120, 0.01, |round, rank, random| if rank == 3 { more * shape(round, random) } else { 0.0 })
            };
            let found = judge(&job(more));
            let of_others = |simulation: &Simulation| -> f64 {
                let times = in_operations(&simulation.kernels());
                times.iter().enumerate().filter(|(rank, _)| *rank != 3).map(|(_, ns)| ns).sum()
            };
            let truth = of_others(&job(more)) - of_others(&job(0.0));
            assert_eq!(late(&found), [3], "{name}, {more}");
            let off = found.late.lost_ns / truth - 1.0;
            assert!(off.abs() < 0.06, "{name}, {more}: lost {} of {truth}: off by {off}", found.late.lost_ns);
            let is_part = ["from half-way on", "the last twelfth"].contains(&name);
            assert_eq!(found.late.ranks[0].span().is_some(), is_part, "{name}, {more}");
        }
    }
}

/// In short recordings the first and last long times are far from the ends.
#[test]
fn a_rank_that_is_late_throughout_was_not_late_for_a_while() {
    for every in [1, 2, 3, 5] {
        for number in (8 * every).max(12)..(8 * every).max(12) + 2 * every {
            for first in 0..every {
                let job = rounds(
                    8,
                    number,
                    0.01,
                    |round, rank, _| {
                        if rank == 3 && round % every == first { real(every) } else { 0.0 }
                    },
                );
                let found = judge(&job);
                let spans = found.late.ranks.iter().map(super::late::LateRank::span);
                assert!(
                    spans.clone().all(|span| span.is_none()),
                    "{every} {number} {first}: {:?}",
                    spans.collect::<Vec<_>>()
                );
            }
        }
    }
}

#[test]
fn ranks_that_are_late_together_or_in_turn_are_named() {
    let both = rounds(8, 120, 0.01, |_, rank, _| if rank == 2 || rank == 5 { 0.3 } else { 0.0 });
    assert_eq!(late(&judge(&both)), [2, 5]);
    let turns =
        rounds(
            8,
            120,
            0.01,
            |round, rank, _| {
                if (rank == 2 && round % 2 == 0) || (rank == 5 && round % 2 == 1) { 0.4 } else { 0.0 }
            },
        );
    assert_eq!(late(&judge(&turns)), [2, 5]);
    let half = rounds(8, 120, 0.01, |_, rank, _| if rank < 4 { 0.3 } else { 0.0 });
    let half = judge(&half);
    assert!(late(&half).is_empty() || late(&half) == [0, 1, 2, 3]);
}

/// Of few ranks it is not known how far they differ by design: one that takes several times as long is late.
#[test]
fn one_of_few_ranks_is_named() {
    for ranks in [2, 3, 4] {
        let job = rounds(ranks, 30, 0.3, |_, rank, _| if rank == 1 { 2.0 } else { 0.0 });
        assert_eq!(late(&judge(&job)), [1], "{ranks}");
        assert!(late(&judge(&rounds(ranks, 30, 0.3, |_, _, _| 0.0))).is_empty(), "{ranks}");
    }
}

/// The totals over the run say nothing: a rank that is out for long, or others that pause once.
#[test]
fn a_late_rank_that_leaves_or_beside_pauses_is_named() {
    let paused = rounds(8, 120, 0.01, |round, rank, _| match rank {
        3 => 0.2,
        6 if round == 50 => 40.0,
        _ => 0.0,
    });
    assert_eq!(late(&judge(&paused)), [3]);
    let mut left = rounds(4, 40, 0.01, |_, rank, _| if rank == 2 { 2.0 } else { 0.0 });
    let rest = left.communicator([0, 1, 3]);
    for _ in 0..200 {
        for rank in [0, 1, 3] {
            left.work(rank, 5.0 * MS);
        }
        left.collective(rest, MS);
    }
    assert_eq!(late(&judge(&left)), [2]);
}

/// A rank that pauses once or a few times is not late, even where its peers hardly differ.
#[test]
fn a_rank_that_pauses_is_not_late() {
    for (jitter, pauses) in [(0.01, 1), (0.01, 4), (0.3, 1), (0.3, 4)] {
        let job = rounds(
            8,
            150,
            jitter,
            |round, rank, _| {
                if rank == 3 && (70..70 + pauses).contains(&round) { 20.0 } else { 0.0 }
            },
        );
        assert!(late(&judge(&job)).is_empty(), "{jitter} {pauses}");
    }
}

#[test]
fn clocks_do_not_matter_for_who_is_late() {
    let late_rank = |_: u64, rank: usize, _: &mut Random| if rank == 3 { 0.3 } else { 0.0 };
    let truth = judge(&rounds(8, 120, 0.01, late_rank)).late.lost_ns;
    let ahead: Vec<u64> = (0..8).map(|rank| if rank < 4 { 0 } else { 50_000_000 }).collect();
    for error_ns in [Some(50_000_000), None] {
        let job = rounds(8, 120, 0.01, late_rank);
        // The same job on other clocks.
        let found = judge(&job.shifted(&ahead, error_ns));
        assert_eq!(late(&found), [3]);
        assert!((found.late.lost_ns / truth - 1.0).abs() < 0.02, "{} {truth}", found.late.lost_ns);
    }
}

/// Whether members waited for a root is not known within the clocks' error: that is said, and nobody is named.
#[test]
fn waits_for_a_root_within_the_error_are_unclear() {
    let job = || {
        let mut simulation = Simulation::new(4);
        let world = simulation.communicator(0..4);
        let mut random = Random::new(9);
        for _ in 0..60 {
            for rank in 0..4 {
                let more = if rank == 0 { 0.2 } else { 0.0 };
                simulation.work(rank, MS * (1.0 + more + 0.02 * random.exponential()));
            }
            simulation.collective_on(world, 0, Flow::FromRoot, 0, 0.2 * MS, true);
        }
        simulation
    };
    let known = judge(&job().shifted(&[0; 4], Some(0)));
    assert!(known.unclear < 0.01, "{}", known.unclear);
    for error_ns in [Some(50_000_000), None] {
        let found = judge(&job().shifted(&[0; 4], error_ns));
        assert!(late(&found).is_empty() && found.unclear > 0.1, "{error_ns:?} {}", found.unclear);
    }
}

#[test]
fn a_slow_stage_of_a_pipeline_is_named() {
    let pipeline = |slow: Option<usize>, factor: f64, is_buffered: bool, streams: [u32; 2]| {
        let mut simulation = Simulation::new(4);
        let world = simulation.communicator(0..4);
        let mut random = Random::new(16);
        for _ in 0..20 {
            // Each step has eight batches forward, then backward.
            for (is_back, _) in [false, true].into_iter().flat_map(|is_back| (0..8).map(move |batch| (is_back, batch)))
            {
                for place in 0..4 {
                    let stage = if is_back { 3 - place } else { place };
                    let factor = if slow == Some(stage) { factor } else { 1.0 };
                    simulation.work(stage, 2.0 * MS * factor * (1.0 + 0.02 * random.exponential()));
                    match stage {
                        0 if is_back => {}
                        3 if !is_back => {}
                        stage => {
                            let next = if is_back { stage - 1 } else { stage + 1 };
                            simulation.message_on(world, [stage, next], streams, 0.1 * MS, is_buffered);
                        }
                    }
                }
            }
            simulation.collective(world, 0.3 * MS);
        }
        simulation
    };
    for (is_buffered, streams) in [(true, [0, 0]), (false, [0, 0]), (true, [3, 4]), (false, [3, 4])] {
        for stage in 0..4_usize {
            let simulation = pipeline(Some(stage), 1.5, is_buffered, streams);
            let found = judge(&simulation);
            assert_eq!(late(&found), [u32::try_from(stage).expect("small")], "{is_buffered} {streams:?}");
            let of_others = |simulation: &Simulation| -> f64 {
                let times = in_operations(&simulation.kernels());
                times.iter().enumerate().filter(|(rank, _)| *rank != stage).map(|(_, ns)| ns).sum()
            };
            let truth = of_others(&simulation) - of_others(&pipeline(None, 1.0, is_buffered, streams));
            let off = found.late.lost_ns / truth - 1.0;
            assert!(
                off.abs() < 0.1,
                "{is_buffered} {streams:?} {stage}: {} of {truth}: off by {off}",
                found.late.lost_ns
            );
        }
        assert_eq!(late(&judge(&pipeline(None, 1.0, is_buffered, streams))), [0_u32; 0]);
    }
}

/// The GPU of rank 3 is late by `late` on a stream of its own, beside a collective of 2 ms on another stream.
fn beside_another_stream(late: f64) -> Simulation {
    let mut simulation = Simulation::new(4);
    let (tensor, data) = (simulation.communicator(0..4), simulation.communicator(0..4));
    let mut random = Random::new(6);
    for _ in 0..100 {
        for rank in 0..4 {
            simulation.work(rank, 5.0 * MS * (1.0 + 0.01 * random.exponential()));
        }
        simulation.collective_on(data, 1, Flow::AllToAll, 0, 2.0 * MS, false);
        (0..4).for_each(|rank| simulation.work(rank, if rank == 3 { late } else { 0.0 }));
        simulation.collective_on(tensor, 0, Flow::AllToAll, 0, 0.2 * MS, false);
        for rank in 0..4 {
            simulation.synchronize(rank, 0);
            simulation.synchronize(rank, 1);
        }
    }
    simulation
}

/// What ranks lose is the time that a rank is longer than what runs beside it anyway.
#[test]
fn what_runs_on_another_stream_is_no_lateness() {
    let of_others = |simulation: &Simulation| in_operations(&simulation.kernels())[..3].iter().sum::<f64>();
    let hidden = judge(&beside_another_stream(MS));
    assert!(late(&hidden).is_empty(), "1 ms is hidden by the collective of 2 ms: {:?}", hidden.late);
    let longer = judge(&beside_another_stream(5.0 * MS));
    assert_eq!(late(&longer), [3]);
    let truth = of_others(&beside_another_stream(5.0 * MS)) - of_others(&beside_another_stream(0.0));
    let off = longer.late.lost_ns / truth - 1.0;
    assert!(off.abs() < 0.1, "{} of {truth}: off by {off}", longer.late.lost_ns);
}

/// Tensor parallel within four ranks, data parallel over four replicas on a stream of its own, rank 5 slow.
#[test]
fn partners_of_a_late_rank_are_not_late() {
    let job = |more: f64| {
        let mut simulation = Simulation::new(16);
        let tensor: Vec<u32> = (0..4).map(|replica| simulation.communicator(4 * replica..4 * replica + 4)).collect();
        let data: Vec<u32> =
            (0..4).map(|rank| simulation.communicator((0..4).map(move |replica| rank + 4 * replica))).collect();
        let mut random = Random::new(3);
        for _ in 0..20 {
            for _ in 0..6 {
                for rank in 0..16 {
                    let factor = if rank == 5 { 1.0 + more } else { 1.0 };
                    simulation.work(rank, MS * factor * (1.0 + 0.01 * random.exponential()));
                }
                tensor.iter().for_each(|group| simulation.collective(*group, 0.2 * MS));
                for group in &data {
                    simulation.collective_on(*group, 9, Flow::AllToAll, 0, 0.5 * MS, false);
                }
            }
            (0..16).for_each(|rank| simulation.synchronize(rank, 9));
        }
        simulation
    };
    assert!(late(&judge(&job(0.0))).is_empty());
    for more in [0.2, 0.5] {
        assert_eq!(late(&judge(&job(more))), [5], "{more}");
    }
}

/// Work that grows from rank to rank, as that of causal attention in a ring: no rank is late.
#[test]
fn ranks_that_differ_by_design_are_not_late() {
    let job = rounds(8, 100, 0.01, |_, rank, _| 0.1 * real(rank as u64));
    assert!(late(&judge(&job)).is_empty());
}

/// Each step makes a communicator anew: no later collective on it makes its first one warm-up.
#[test]
fn communicators_of_one_collective_are_compared() {
    let job = |more: f64| {
        let mut simulation = Simulation::new(6);
        let mut random = Random::new(8);
        for _ in 0..60 {
            let world = simulation.communicator(0..6);
            for rank in 0..6 {
                let factor = if rank == 2 { 1.0 + more } else { 1.0 };
                simulation.work(rank, 4.0 * MS * factor * (1.0 + 0.01 * random.exponential()));
            }
            simulation.collective(world, 0.5 * MS);
        }
        simulation
    };
    assert!(late(&judge(&job(0.0))).is_empty());
    let found = judge(&job(0.3));
    assert_eq!(late(&found), [2]);
    let of_others = |simulation: &Simulation| {
        let times = in_operations(&simulation.kernels());
        times.iter().enumerate().filter(|(rank, _)| *rank != 2).map(|(_, ns)| ns).sum::<f64>()
    };
    let truth = of_others(&job(0.3)) - of_others(&job(0.0));
    assert!((found.late.lost_ns / truth - 1.0).abs() < 0.05, "{} of {truth}", found.late.lost_ns);
}

type Noise = (&'static str, usize, fn(&mut NoiseState, u64, usize, &mut Random) -> f64);

/// What noise remembers, by rank.
#[derive(Default)]
struct NoiseState {
    value: [f64; 32],
    left: [u64; 32],
    common: f64,
}

fn correlated(state: &mut NoiseState, rank: usize, random: &mut Random, memory: f64) -> f64 {
    state.value[rank] = memory * state.value[rank] + 0.03 * random.normal();
    0.2 + state.value[rank].max(-0.2)
}

/// Noise in which nobody is to blame.
const NOISES: [Noise; 18] = [
    ("exponential", 8, |_, _, _, random| 0.2 * random.exponential()),
    ("heavy tails", 8, |_, _, _, random| 0.02 * (random.pareto(1.5) - 1.0)),
    ("lognormal", 8, |_, _, _, random| 0.05 * (1.2 * random.normal()).exp()),
    ("memory of 0.5", 8, |state, _, rank, random| correlated(state, rank, random, 0.5)),
    ("memory of 0.8", 8, |state, _, rank, random| correlated(state, rank, random, 0.8)),
    ("memory of 0.95", 8, |state, _, rank, random| correlated(state, rank, random, 0.95)),
    ("memory of 0.98", 8, |state, _, rank, random| correlated(state, rank, random, 0.98)),
    ("memory of 0.95, 2 ranks", 2, |state, _, rank, random| correlated(state, rank, random, 0.95)),
    ("heavy tails, 2 ranks", 2, |_, _, _, random| 0.02 * (random.pareto(1.5) - 1.0)),
    ("exponential, 4 ranks", 4, |_, _, _, random| 0.2 * random.exponential()),
    ("memory of 0.95, 4 ranks", 4, |state, _, rank, random| correlated(state, rank, random, 0.95)),
    ("a random walk, 4 ranks", 4, |state, _, rank, random| {
        state.value[rank] += 0.01 * random.normal();
        state.value[rank].max(-0.5) + 0.5
    }),
    ("memory of 0.95, 3 ranks", 3, |state, _, rank, random| correlated(state, rank, random, 0.95)),
    ("memory of 0.9, 32 ranks", 32, |state, _, rank, random| correlated(state, rank, random, 0.9)),
    ("a random walk", 8, |state, _, rank, random| {
        state.value[rank] += 0.01 * random.normal();
        state.value[rank].max(-0.5) + 0.5
    }),
    ("stalls", 8, |_, _, _, random| if random.below(200) == 0 { 10.0 } else { 0.02 * random.exponential() }),
    ("spells", 8, |state, _, rank, random| {
        if state.left[rank] == 0 && random.below(100) == 0 {
            state.left[rank] = 10;
        }
        let is_slow = state.left[rank] > 0;
        state.left[rank] = state.left[rank].saturating_sub(1);
        0.02 * random.exponential() + if is_slow { 0.3 } else { 0.0 }
    }),
    ("a common drift", 8, |state, _, rank, random| {
        if rank == 0 {
            state.common = 0.95 * state.common + 0.03 * random.normal();
        }
        0.3 + state.common.max(-0.3) + 0.02 * random.exponential()
    }),
];

/// For each kind of noise, how many of the seeds name a rank: with one meeting a round, and with three, of which the
/// last follows at once.
fn accused(seeds: u64) -> Vec<(&'static str, [u64; 2])> {
    let of_noise = |(name, ranks, noise): &Noise| {
        let is_accused = |seed: u64, parts: &[f64]| {
            let (mut state, mut random) = (NoiseState::default(), Random::new(seed * 7919 + 1));
            let mut job = Simulation::new(*ranks);
            let world = job.communicator(0..*ranks);
            for round in 0..150 {
                let work = |rank| 5.0 * MS * (1.0 + noise(&mut state, round, rank, &mut random));
                let works: Vec<f64> = (0..*ranks).map(work).collect();
                for part in parts {
                    (0..*ranks).zip(&works).for_each(|(rank, work)| job.work(rank, part * work));
                    job.collective(world, MS);
                }
            }
            !judge(&job).late.ranks.is_empty()
        };
        let of_parts = |parts: &[f64]| (0..seeds).filter(|seed| is_accused(*seed, parts)).count() as u64;
        (*name, [of_parts(&[1.0]), of_parts(&[0.75, 0.25, 0.0])])
    };
    NOISES.iter().map(of_noise).collect()
}

/// Spells are facts of the run: the one rank that had some is named with its times.
#[test]
fn noise_accuses_nobody() {
    let seeds = if std::env::var_os("NCCL_OTF2_TEST_ALL_SEEDS").is_some() { 100 } else { 6 };
    let accused = accused(seeds);
    if seeds == 100 {
        let row =
            |(name, [one, three]): &(&str, [u64; 2])| format!("| {name} | {one} of {seeds} | {three} of {seeds} |\n");
        let rows = accused.iter().map(row);
        let head =
            "| noise of each rank | a rank is called late | with three meetings a step |\n|---|---|---|\n".to_owned();
        whole_plugin::pages::compare("ANALYSIS.md", "noise", &rows.fold(head, |table, row| table + &row));
    }
    for (name, found) in accused {
        let most = if name == "spells" { seeds.div_ceil(20) } else { seeds / 100 };
        assert!(found.iter().all(|found| *found <= most), "{name}: a rank is accused in {found:?} of {seeds}");
    }
}

#[test]
fn what_nccl_does_not_report_accuses_nobody() {
    let mut simulation = Simulation::new(4);
    let world = simulation.communicator(0..4);
    for _ in 0..60 {
        for rank in 0..4 {
            simulation.work(rank, MS);
            simulation.unreported_call(rank);
            // The root of an unreported broadcast does not wait for the others.
            simulation.work(rank, if rank == 0 { 0.0 } else { 3.0 * MS });
        }
        simulation.collective(world, MS);
    }
    let found = judge(&simulation);
    assert!(late(&found).is_empty() && found.blind.unreported > 200);
}
