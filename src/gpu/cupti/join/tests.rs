use crate::gpu::cupti::join::*;
use proptest::prelude::*;

/// A piece of work, identified by a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    number: u32,
    is_nccl: bool,
    is_of_graph: bool,
}

impl Work for Piece {
    fn is_nccl_by_name(&self) -> bool {
        self.is_nccl
    }

    fn is_of_graph(&self) -> bool {
        self.is_of_graph
    }
}

const fn piece(number: u32, is_nccl: bool) -> Piece {
    Piece { number, is_nccl, is_of_graph: false }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn owner(out: &[JoinedWork<Piece>], number: u32) -> Option<Owner> {
    let mut found = out.iter().filter(|one| one.work.number == number);
    let first = found.next().map(|one| one.owner);
    assert!(found.next().is_none(), "{number} came out twice");
    first
}

#[derive(Debug, Clone, Copy)]
enum Record {
    Call { correlation: u32, id: u64 },
    Work { correlation: u32, work: Piece },
}

/// Launches of NCCL under ids from 1 on, other libraries' kernels, and replays, with correlation ids from `first` on.
fn records(first: u32, launches: u32, others: u32, replays: u32) -> Vec<Record> {
    let mut all = Vec::new();
    for number in 0..launches + others + replays {
        let correlation = first.wrapping_add(number * 3);
        let is_ours = number < launches;
        if is_ours {
            all.push(Record::Call { correlation, id: u64::from(number) + 1 });
        }
        let work = Piece {
            number,
            is_nccl: number < launches || number >= launches + others,
            is_of_graph: number >= launches + others,
        };
        all.push(Record::Work { correlation, work });
    }
    all
}

proptest! {
    #[test]
    fn the_order_in_which_records_come_does_not_matter(
        first in prop_oneof![Just(0), Just(u32::MAX - 40), any::<u32>()],
        (launches, others, replays) in (1_u32..20, 0_u32..20, 0_u32..5),
        order in any::<prop::sample::Index>().prop_map(|index| index.index(usize::MAX)),
        turns in 1_usize..4,
    ) {
        let mut all = records(first, launches, others, replays);
        // Shuffles with a small random number generator.
        let mut state = order as u64 | 1;
        for at in (1..all.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.swap(at, usize::try_from(state >> 33).unwrap() % (at + 1));
        }
        let mut join = Join::new();
        join.expect_ids();
        let mut out = Vec::new();
        for (at, one) in all.iter().enumerate() {
            let now = seconds((at / turns) as u64 / 40);
            match *one {
                Record::Call { correlation, id } => join.call(now, correlation, id, false, &mut out),
                Record::Work { correlation, work } => join.work(now, correlation, work, &mut out),
            }
            join.sweep(now, &mut out);
        }
        join.end(&mut out);
        prop_assert_eq!(out.len(), (launches + others + replays) as usize);
        for number in 0..launches + others + replays {
            let expected = if number < launches {
                Owner::Launch(u64::from(number) + 1)
            } else if number < launches + others {
                Owner::Foreign
            } else {
                Owner::Nccl
            };
            prop_assert_eq!(owner(&out, number), Some(expected));
        }
        prop_assert_eq!((join.take_matched(), join.take_unmatched()), (u64::from(launches), 0));
    }
}

#[test]
fn a_launch_whose_work_never_comes_is_counted_once() {
    let (mut join, mut out) = (Join::<Piece>::new(), Vec::new());
    // Two calls under one id, as when all driver functions are recorded.
    join.call(seconds(0), 10, 7, false, &mut out);
    join.call(seconds(0), 11, 7, false, &mut out);
    join.sweep(seconds(59), &mut out);
    assert_eq!((join.open(), join.take_unmatched()), (1, 0));
    join.sweep(seconds(60), &mut out);
    assert_eq!((join.open(), join.take_unmatched()), (0, 1));
    // The work comes too late: it is NCCL's, but its launch is unknown.
    join.work(seconds(61), 10, piece(1, true), &mut out);
    join.end(&mut out);
    assert_eq!(owner(&out, 1), Some(Owner::Nccl));
    assert_eq!((join.take_matched(), join.take_unmatched()), (0, 0));
}

#[test]
fn all_copies_of_a_collective_belong_to_it() {
    let (mut join, mut out) = (Join::new(), Vec::new());
    for correlation in [10, 11, 12] {
        join.call(seconds(0), correlation, 7, true, &mut out);
    }
    // A driver call below the runtime call.
    join.launches_nothing(10);
    // Two pieces in one batch, and one that takes long.
    join.work(seconds(1), 10, piece(1, false), &mut out);
    join.work(seconds(1), 10, piece(2, false), &mut out);
    join.sweep(seconds(20), &mut out);
    join.work(seconds(21), 12, piece(3, false), &mut out);
    for number in [1, 2, 3] {
        assert_eq!(owner(&out, number), Some(Owner::Launch(7)));
    }
    join.end(&mut out);
    assert_eq!((join.take_matched(), join.take_unmatched()), (1, 0));
}

#[test]
fn work_of_others_waits_for_a_shorter_time() {
    let (mut join, mut out) = (Join::new(), Vec::new());
    join.expect_ids();
    join.work(seconds(0), 10, piece(1, false), &mut out);
    join.work(seconds(0), 11, piece(2, true), &mut out);
    assert!(out.is_empty());
    join.sweep(seconds(2), &mut out);
    assert_eq!((owner(&out, 1), owner(&out, 2)), (Some(Owner::Foreign), None));
    join.sweep(seconds(60), &mut out);
    assert_eq!(owner(&out, 2), Some(Owner::Nccl));
}

#[test]
fn the_number_of_waiting_pieces_is_limited() {
    let (mut join, mut out) = (Join::new(), Vec::new());
    join.expect_ids();
    let most = u32::try_from(MOST_WAITING).unwrap();
    for number in 0..most + 10 {
        join.work(seconds(0), number, piece(number, true), &mut out);
    }
    join.sweep(seconds(0), &mut out);
    assert_eq!(out.len(), 10);
    assert_eq!(owner(&out, 0), Some(Owner::Nccl), "the oldest first");
}
