//! Invented hosts with known clocks: results must be as close to the truth as their stated uncertainty.

use super::*;
use proptest::prelude::*;

/// The true CLOCK_REALTIME at the beginning.
const EPOCH: u64 = 1_790_000_000_000_000_000;

/// A host's clock: its lead at the beginning, and its drift.
#[derive(Clone, Copy, Debug)]
struct Host {
    ahead_ns: i64,
    drift_ppb: i64,
}

impl Host {
    /// The reading at a true time.
    fn shows(self, ns: u64) -> u64 {
        let gained = i128::from(ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        let gained = i64::try_from(gained).expect("a run is short");
        (EPOCH + ns).saturating_add_signed(self.ahead_ns + gained)
    }
}

/// A message: from, to, time sent, delay.
type Message = (usize, usize, u64, u64);

/// A constraint between two pairs of boot and reading.
fn claim(earlier: (usize, u64), later: (usize, u64)) -> Constraint {
    let reading = |(boot, ns)| Reading { boot, ns };
    Constraint { earlier: reading(earlier), later: reading(later) }
}

fn constraints(hosts: &[Host], messages: &[Message]) -> Vec<Constraint> {
    let constraint = |&(from, to, sent, delay): &Message| {
        claim((from, hosts[from].shows(sent)), (to, hosts[to].shows(sent + delay)))
    };
    messages.iter().map(constraint).collect()
}

fn spans(hosts: &[Host], length: u64) -> Vec<(u64, u64)> {
    hosts.iter().map(|host| (host.shows(0), host.shows(length))).collect()
}

/// The error of host `boot` against the reference at a true time, after correction.
fn error(hosts: &[Host], alignment: &Alignment, boot: usize, ns: u64) -> u64 {
    let clock = &alignment.clocks[boot];
    let reading = hosts[boot].shows(ns);
    let truth = hosts[clock.reference].shows(ns);
    clock.common_ns(reading).abs_diff(truth)
}

fn hosts(number: usize) -> impl Strategy<Value = Vec<Host>> {
    let host = (-10_000_000_000_i64..10_000_000_000, -50_000_i64..50_000);
    prop::collection::vec(host.prop_map(|(ahead_ns, drift_ppb)| Host { ahead_ns, drift_ppb }), number)
}

/// The shortest delay of a message, ns; most take longer.
const LATENCY: u64 = 20_000;

/// Messages around a ring of hosts, over 30 s, with random delays.
fn ring(number: usize, messages: usize, seed: u64) -> Vec<Message> {
    // Drawn from a seed, because a failing test should not print thousands of messages.
    let mut state = seed;
    let mut draw = |below: u64| {
        // Knuth's generator; only its high bits are random enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut message = || {
        let from = usize::try_from(draw(number as u64)).expect("few hosts");
        // One in ten is fast.
        let slowest = if draw(10) == 0 { 1_000 } else { 3_000_000 };
        let (sent, delay) = (draw(30_000) * 1_000_000, LATENCY + draw(slowest));
        (from, (from + 1) % number, sent, delay)
    };
    (0..messages).map(|_| message()).collect()
}

/// The checks T13 to T17 of `nccl-otf2 check` for clock offsets: they enclose the span, never turn time back, correct
/// no more than clocks drift, and have the stated drift.
fn looks_right(clock: &Correction, span: (u64, u64)) {
    let knots = clock.map.knots();
    let [first, .., last] = knots else {
        assert_eq!(clock.drift_ppb, 0);
        return;
    };
    let (from, to) = (i128::from(span.0), i128::from(span.1));
    assert!(first.0 <= from && to <= last.0, "{clock:?}");
    let mut drifts: Vec<(i128, i128)> = Vec::new();
    for pair in knots.windows(2) {
        let run = pair[1].0 - pair[0].0;
        let rise = pair[1].1 - pair[0].1 - run;
        assert!(rise.abs() <= run * 1250 / 1_000_000 + 2, "{clock:?}");
        let ppb = rise * 1_000_000_000 / run;
        let room = 2_000_000_000 / run + ppb.abs() * 3 / 2000 + 1;
        if run >= 900_000 || knots.len() == 2 {
            drifts.push((ppb - room, ppb + room));
        }
    }
    let least = drifts.iter().map(|drift| drift.0).min();
    let most = drifts.iter().map(|drift| drift.1).max();
    let stated = i128::from(clock.drift_ppb);
    assert!(least <= Some(stated) && Some(stated) <= most, "{drifts:?} {clock:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Even if claims contradict each other, or cover little of the time.
    #[test]
    fn clocks_look_right(
        claims in prop::collection::vec(
            (0..4_usize, 0..4_usize, 0..100_000_000_u64, -1_000_000_000..1_000_000_000_i64),
            1..60,
        ),
        scale in prop_oneof![1..10_u64, 1..1_000_000_u64],
        wrong in 1..1_000_000_i64,
    ) {
        let length = scale * 100_000_000;
        let constraints = claims.iter().map(|&(from, to, sent, later)| {
            let earlier = EPOCH + sent * scale;
            claim((from, earlier), (to, earlier.saturating_add_signed(later / wrong)))
        });
        // Every reading belongs to an event.
        let constraints: Vec<Constraint> = constraints.collect();
        let spans = [0, 1, 2, 3].map(|boot| {
            let all = constraints.iter().flat_map(|one| [one.earlier, one.later]);
            let readings = all.filter(|reading| reading.boot == boot).map(|reading| reading.ns);
            let (first, last) = (readings.clone().min().unwrap_or(EPOCH), readings.max());
            (first.min(EPOCH + length / 2), last.unwrap_or(first))
        });
        let alignment = align(&spans, constraints);
        for (clock, &span) in alignment.clocks.iter().zip(&spans) {
            looks_right(clock, span);
        }
    }

    /// Seconds apart and 50 ppm: corrected to below the network's shortest delay, no message is received before it was
    /// sent, and the stated uncertainty holds.
    #[test]
    fn two_hosts(hosts in hosts(2), seed in any::<u64>()) {
        let messages = ring(2, 2000, seed);
        let alignment = align(&spans(&hosts, 30_000_000_000), constraints(&hosts, &messages));
        prop_assert_eq!(alignment.violations, 0, "{} ns", alignment.worst_violation_ns);
        let clock = &alignment.clocks[1];
        prop_assert_eq!((clock.relation, clock.reference), (Relation::Bounded, 0));
        let uncertainty = clock.map.uncertainty.expect("it is bounded");
        prop_assert!(uncertainty < 2 * LATENCY, "{}", uncertainty);
        for second in 1..30 {
            let off = error(&hosts, &alignment, 1, second * 1_000_000_000);
            prop_assert!(off <= uncertainty && off < LATENCY, "{} of {}", off, uncertainty);
        }
    }

    /// No pair has traffic both ways: the path around the ring bounds all clocks.
    #[test]
    fn a_ring_of_six(hosts in hosts(6), seed in any::<u64>()) {
        let messages = ring(6, 6000, seed);
        let constraints = constraints(&hosts, &messages);
        let alignment = align(&spans(&hosts, 30_000_000_000), constraints.clone());
        prop_assert_eq!(alignment.violations, 0, "{} ns", alignment.worst_violation_ns);
        for (boot, clock) in (0..).zip(&alignment.clocks) {
            let uncertainty = clock.map.uncertainty.expect("it is bounded");
            // A path around the ring has six delays, not all of them shortest; a host is in the middle of its range.
            prop_assert!(uncertainty < 10 * LATENCY, "{}", uncertainty);
            for second in 1..30 {
                let off = error(&hosts, &alignment, boot, second * 1_000_000_000);
                prop_assert!(off <= uncertainty, "{} of {}", off, uncertainty);
            }
        }
        // The result depends neither on order nor on duplicates.
        let again = constraints.iter().rev().chain(&constraints).copied().collect();
        prop_assert_eq!(align(&spans(&hosts, 30_000_000_000), again), alignment);
    }

    /// Whatever the claims, a clock never goes backwards.
    #[test]
    fn contradictions_end(
        claims in prop::collection::vec((0..4_usize, 0..4_usize, 0..1_u64 << 62, 0..1_u64 << 62), 0..40),
    ) {
        let constraints = claims.iter().map(|&(from, to, earlier, later)| claim((from, earlier), (to, later)));
        for clock in align(&[(0, 1 << 62); 4], constraints.collect()).clocks {
            prop_assert!((0..1000_u64).map(|at| clock.common_ns(at << 52)).is_sorted());
        }
    }
}

#[test]
fn without_traffic_the_system_is_believed() {
    let alignment = align(&[(0, 10), (5, 20)], Vec::new());
    let clock = &alignment.clocks[1];
    assert_eq!(clock.relation, Relation::System);
    assert_eq!((clock.reference, clock.map.uncertainty), (1, None));
    assert_eq!(clock.common_ns(17), 17);
}

#[test]
fn traffic_one_way_moves_a_clock_no_further_than_it_must() {
    let hosts = [0, -5_000, 90_000].map(|ahead_ns| Host { ahead_ns, drift_ppb: 0 });
    let messages = [(0, 1, 1_000_000, 1_000), (0, 2, 1_000_000, 1_000)];
    let constraints = constraints(&hosts, &messages);
    let alignment = align(&spans(&hosts, 2_000_000), constraints);
    let corrections: Vec<i64> = alignment.clocks.iter().map(Correction::first_ns).collect();
    // The second would have received 4 µs before the message was sent. The third may be right.
    assert_eq!(corrections, [0, 4_000, 0]);
    assert_eq!(alignment.violations, 0);
    assert!(alignment.clocks.iter().all(|clock| clock.map.uncertainty.is_none()));
}

#[test]
fn a_clock_that_is_slewed_gets_more_knots() {
    // 40 ppm too fast for 30 s, then as much too slow.
    let second = |ns: u64| {
        let gained = if ns < 30_000_000_000 { ns } else { 60_000_000_000 - ns } / 25_000;
        EPOCH + ns + gained
    };
    let mut constraints = Vec::new();
    for at in (0..60_000_000_000).step_by(50_000_000) {
        let delay = LATENCY + at % 7_000_000 / 70;
        let there = claim((0, EPOCH + at), (1, second(at + delay)));
        let back = at + 1_000_000;
        let back = claim((1, second(back)), (0, EPOCH + back + delay));
        constraints.extend([there, back]);
    }
    let alignment = align(&[(EPOCH, second(60_000_000_000)); 2], constraints);
    assert_eq!(alignment.violations, 0);
    let clock = &alignment.clocks[1];
    assert!(clock.map.knots().len() > 3, "{clock:?}");
    for at in (0..60_000_000_000).step_by(1_000_000_000) {
        let off = clock.common_ns(second(at)).abs_diff(EPOCH + at);
        assert!(Some(off) <= clock.map.uncertainty, "{off} at {at}");
    }
}

#[test]
fn one_clock_that_is_far_off_moves_no_other() {
    let hosts = [7_000_000_000, 0, 1_000, -2_000].map(|ahead_ns| Host { ahead_ns, drift_ppb: 0 });
    let mut messages = Vec::new();
    for at in 0..100 {
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                messages.push((from, to, at * 10_000_000, LATENCY + 100 * at));
            }
        }
    }
    let constraints = constraints(&hosts, &messages);
    let alignment = align(&spans(&hosts, 1_000_000_000), constraints);
    assert!(alignment.clocks.iter().all(|clock| clock.reference != 0));
    assert_eq!(alignment.violations, 0);
}
