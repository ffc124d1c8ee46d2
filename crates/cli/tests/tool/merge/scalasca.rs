//! `merge --for scalasca`: NCCL operations between the events of Score-P's first threads.

use otf2::{EventKind, LocationRef};

use super::{Job, checked, events, happened, open, without};
use crate::tool::made_up::{RANKS, Timer};
use crate::tool::nccl::{NCCL, Nccl};
use crate::tool::score_p::ScoreP;

#[test]
fn operations_lie_between_the_events_of_score_p() {
    for (timer, most) in [(Timer::Counter, 8), (Timer::MonotonicRaw, 4), (Timer::Realtime, 2)] {
        let scorep = ScoreP::new(timer);
        let job = Job::new(&scorep, &Nccl::new());
        let files = || -> Vec<Vec<u8>> {
            let archive = open(&job.scorep);
            let files = (0..RANKS).map(|rank| std::fs::read(archive.event_file(LocationRef::new(rank))));
            files.map(|file| file.expect("a file")).collect()
        };
        let before = files();
        job.merge(&["--for", "scalasca", "-o", "out"]).with_code(0);
        let merged = job.scratch.join("out");
        checked(&job.scratch, &merged);
        assert!(before == files(), "Score-P's own files are as they were");
        let (before, after) = (open(&job.scorep), open(&merged));
        let definitions = after.definitions().expect("definitions");
        let there = events(&after);
        let events_before = events(&before);
        assert_eq!(there.keys().collect::<Vec<_>>(), events_before.keys().collect::<Vec<_>>(), "no other locations");
        for rank in 0..RANKS {
            let master = LocationRef::new(rank);
            // The four events of the operation are adjacent; without them the trace is unchanged.
            let is_ours = |kind: &EventKind| match kind {
                EventKind::Enter(region) => {
                    definitions.string(definitions.regions[region].name) == Some("ncclAllReduce")
                }
                _ => false,
            };
            let (others, ours) = without(&there[&master], 4, is_ours);
            assert_eq!(others, events_before[&master], "{timer:?} rank {rank}");
            let [enter, begin, end, leave] = &ours[..] else { panic!("{ours:?}") };
            happened(&[enter, leave], &[NCCL.0, NCCL.1], &scorep, most);
            let EventKind::Enter(region) = &enter.kind else { panic!("{enter:?}") };
            let region = &definitions.regions[region];
            let text = |name| definitions.string(name).expect("a name");
            assert_eq!((text(region.canonical_name), text(region.source_file)), ("MPI_Allreduce", "MPI"));
            assert_eq!(begin.kind, EventKind::MpiCollectiveBegin);
            let EventKind::MpiCollectiveEnd(collective) = &end.kind else { panic!("{end:?}") };
            let comm = &definitions.comms[&collective.comm];
            assert_eq!((text(comm.name), &*definitions.groups[&comm.group].members), ("NCCL world", &[0, 1, 2][..]));
        }
    }
}

#[test]
fn what_is_not_complete_is_refused() {
    let lost = Nccl { properties: vec![("NCCL::COUNT::COLL::LOST", "2")], ..Nccl::new() };
    let job = Job::new(&ScoreP::new(Timer::Counter), &lost);
    job.refused(&["--for", "scalasca", "-o", "out"], "2 callbacks were not recorded");
    assert!(!job.scratch.join("out").exists());
}
