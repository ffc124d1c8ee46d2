//! NCCL calls between Score-P's events on the same thread.

use otf2::{Archive, AttributeValue, EventKind, LocationRef};

use super::{Job, checked, events, happened, open, without};
use crate::tool::made_up::{Moment, RANKS, Timer};
use crate::tool::nccl::{AROUND, Nccl, small};
use crate::tool::score_p::{MPI, ScoreP};

/// Between two MPI calls.
const CALL: (Moment, Moment) = (MPI[0].1 + 2000, MPI[0].1 + 1_000_000);

#[test]
fn calls_lie_on_the_location_of_the_same_thread() {
    for (timer, has_large_tables, most) in
        [(Timer::Counter, false, 8), (Timer::Counter, true, 8), (Timer::MonotonicRaw, false, 4)]
    {
        let scorep = ScoreP { has_large_tables, ..ScoreP::new(timer) };
        let job = Job::new(&scorep, &Nccl { thread: Some(CALL), ..Nccl::new() });
        assert_eq!(job.json(&["--dry-run"])["calls"]["on_score_p_locations"], RANKS);
        let merged = job.merged();
        checked(&job.scratch, &merged);
        let (before, after) = (open(&job.scorep), open(&merged));
        let definitions = after.definitions().expect("definitions");
        // Score-P's locations, and those of the communicator's ranks.
        assert_eq!(definitions.locations.len() as u64, 2 * RANKS + RANKS);
        let (there, events_before) = (events(&after), events(&before));
        for rank in 0..RANKS {
            let master = LocationRef::new(rank);
            let text = |name| definitions.string(name).expect("a text");
            let is_call = |kind: &EventKind| match kind {
                EventKind::Enter(region) => {
                    text(definitions.regions[region].canonical_name).starts_with("nccl::call::")
                }
                _ => false,
            };
            let (others, call) = without(&there[&master], 2, is_call);
            assert_eq!(others, events_before[&master], "{timer:?} rank {rank}: the others are as they were");
            happened(&[&call[0], &call[1]], &[CALL.0, CALL.1], &scorep, most);
            let [(attribute, AttributeValue::String(value))] = call[0].attributes[..] else { panic!("{call:?}") };
            assert_eq!((text(definitions.attributes[&attribute].name), text(value)), ("nccl.timing", "shown by"));
            let properties = definitions.locations[&master].properties.iter();
            let properties: Vec<&str> = properties.map(|(name, _)| text(*name)).collect();
            assert_eq!(properties, ["NCCL::LOCATION_KIND", "NCCL::THREAD_ID"]);
        }
    }
}

#[test]
fn ranges_lie_around_the_calls() {
    let scorep = ScoreP::new(Timer::Counter);
    let properties = vec![("NCCL::COUNT::RANGES_USER", "6")];
    let job = Job::new(&scorep, &Nccl { thread: Some(CALL), has_ranges: true, properties, ..Nccl::new() });
    let merged = job.merged();
    checked(&job.scratch, &merged);
    let archive = open(&merged);
    let definitions = archive.definitions().expect("definitions");
    let (there, events_before) = (events(&archive), events(&open(&job.scorep)));
    let is_range = |kind: &EventKind| match kind {
        EventKind::Enter(region) => {
            definitions.string(definitions.regions[region].canonical_name) == Some("nvtx::app::step #")
        }
        _ => false,
    };
    for rank in 0..RANKS {
        let (others, ours) = without(&there[&LocationRef::new(rank)], 4, is_range);
        assert_eq!(others, events_before[&LocationRef::new(rank)], "rank {rank}: the others are as they were");
        let around = [CALL.0 - AROUND, CALL.0, CALL.1, CALL.1 + AROUND];
        happened(&ours.iter().collect::<Vec<_>>(), &around, &scorep, 8);
        // What any thread ends has a location of its own in the process.
        let own =
            definitions.locations.iter().filter(|(_, location)| definitions.string(location.name) == Some("NVTX app"));
        let own: Vec<_> = own.filter(|(_, location)| location.group.get() == small(rank)).map(|(own, _)| own).collect();
        let [own] = own[..] else { panic!("rank {rank}: {own:?}") };
        assert!(is_range(&there[own][0].kind));
        happened(&there[own].iter().collect::<Vec<_>>(), &[CALL.0, CALL.1], &scorep, 8);
    }
}

#[test]
fn calls_that_do_not_nest_keep_their_location() {
    let crossing = (MPI[0].1 - 1_000_000, MPI[0].1 + 1_000_000);
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl { thread: Some(crossing), ..Nccl::new() });
    let calls = job.json(&["--dry-run"])["calls"].clone();
    assert_eq!((&calls["on_score_p_locations"], &calls["own_locations"][0]["threads"]), (&0.into(), &RANKS.into()));
    assert!(
        calls["own_locations"][0]["reason"].as_str().is_some_and(|reason| reason.contains("do not nest")),
        "{calls}"
    );
    let merged = job.merged();
    checked(&job.scratch, &merged);
    let files = |directory| {
        let archive: Archive = open(directory);
        (0..RANKS).map(move |rank| std::fs::read(archive.event_file(LocationRef::new(rank))).expect("a file"))
    };
    assert!(files(&job.scorep).eq(files(&merged)), "byte for byte");
}
