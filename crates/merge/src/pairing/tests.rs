use super::*;
use otf2::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

fn theirs(rank: u32, host: &str, process_id: Option<u64>) -> scorep::Process {
    scorep::Process {
        group: LocationGroupRef::new(rank),
        node: SystemTreeNodeRef::new(0),
        id: scorep::ProcessId { host: host.to_owned(), process_id, rank },
        master: LocationRef::new(rank.into()),
    }
}

fn ours(rank: Option<u32>, host: &str, process_id: Option<u64>) -> Process {
    Process {
        name: format!("{host}:{process_id:?}"),
        host: host.to_owned(),
        process_id,
        rank,
        locations: 0,
        events: 0,
        group: LocationGroupRef::new(0),
        rank_in_communicator: None,
        has_counter: true,
        anchors: Vec::new(),
    }
}

fn found(theirs: &[scorep::Process], ours: &[Process], map: &[&str]) -> Result<Vec<Option<(usize, By)>>, String> {
    let map = map.iter().map(|mapping| mapping.parse()).collect::<Result<Vec<Mapping>, String>>()?;
    let is_of_all = |_| ours.len() == theirs.len();
    let found = matched(&numbered([theirs].into_iter()), &numbered([ours].into_iter()), &map, &is_of_all);
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|matched| matched.map(|(place, by)| (place.process, by))).collect())
}

#[test]
fn host_and_process_id_come_first_then_the_rank() {
    let theirs = [theirs(0, "a.cluster", Some(10)), theirs(1, "a.cluster", Some(11)), theirs(2, "b.cluster", Some(10))];
    // Here the launcher's ranks differ from MPI's: process ids are more reliable.
    let by_process = [ours(Some(0), "a", Some(11)), ours(Some(1), "b", Some(10))];
    assert_eq!(found(&theirs, &by_process, &[]), Ok(vec![Some((1, By::Process)), Some((2, By::Process))]));
    let by_rank = [ours(Some(2), "x", Some(10)), ours(Some(7), "x", Some(11))];
    assert_eq!(found(&theirs, &by_rank, &[]), Ok(vec![Some((2, By::Rank)), None]));
    // Another process already took rank 1 by its id.
    let taken = [ours(None, "a", Some(11)), ours(Some(1), "x", Some(5))];
    assert_eq!(found(&theirs, &taken, &[]), Ok(vec![Some((1, By::Process)), None]));
}

#[test]
fn the_user_knows_best() {
    let theirs = [theirs(0, "a", Some(10)), theirs(1, "a", Some(11))];
    let ours = [ours(Some(0), "a", Some(10)), ours(Some(1), "x", Some(3))];
    assert_eq!(found(&theirs, &ours, &["0=1", "x:3=a:10"]), Ok(vec![Some((1, By::Map)), Some((0, By::Map))]));
    for (mapping, word) in [
        ("0=9", "no rank 9 in Score-P"),
        ("a:77=0", "no a:77 in NCCL"),
        ("0", "not NCCL=SCOREP"),
        ("x=0", "neither a rank"),
        ("a:b=0", "not HOST:PROCESS_ID"),
    ] {
        let error = found(&theirs, &ours, &[mapping]).expect_err(mapping);
        assert!(error.contains(word), "{mapping}: {error}");
    }
}

#[test]
fn sessions_of_a_process_are_one_process() {
    let theirs = [theirs(0, "a", None)];
    let sessions = [ours(Some(0), "a", Some(5)), ours(Some(0), "a", Some(5))];
    assert_eq!(found(&theirs, &sessions, &[]), Ok(vec![Some((0, By::Rank)); 2]));
    let others = [ours(Some(0), "a", Some(5)), ours(Some(0), "a", Some(6))];
    assert_eq!(found(&theirs, &others, &[]), Ok(vec![Some((0, By::Rank)), None]));
    assert_eq!(found(&theirs, &others, &["a:6=0"]).map(|found| found[0]), Ok(None));
    let error = found(&theirs, &others, &["a:6=0", "a:5=0"]).expect_err("two for one");
    assert!(error.contains("would be the same Score-P process"), "{error}");
}

#[test]
fn ranks_of_nccl_count_where_it_has_all_of_mpi() {
    let theirs = [theirs(0, "a", Some(1)), theirs(1, "a", Some(2))];
    let of = |rank| Process { rank_in_communicator: Some(rank), ..ours(None, "x", Some(7 + u64::from(rank))) };
    let both = Ok(vec![Some((1, By::Communicator)), Some((0, By::Communicator))]);
    assert_eq!(found(&theirs, &[of(1), of(0)], &[]), both);
    assert_eq!(found(&theirs, &[of(1)], &[]), Ok(vec![None]));
}

#[test]
fn a_host_and_a_process_id_identify_one_process_or_none() {
    let common = [theirs(0, "c", Some(1)), theirs(1, "c", Some(1))];
    let both = [ours(Some(1), "c", Some(1)), ours(None, "c", Some(1))];
    assert_eq!(found(&common, &both, &[]), Ok(vec![Some((1, By::Rank)), None]));
    // A domain may be missing. "a" can be either host.
    let theirs = [theirs(0, "a.one", Some(1)), theirs(1, "a.two", Some(1)), theirs(2, "b", Some(1))];
    let ours = ["a.two", "a.three", "b.one", "a"].map(|host| ours(None, host, Some(1)));
    assert_eq!(found(&theirs, &ours, &[]), Ok(vec![Some((1, By::Process)), None, Some((2, By::Process)), None]));
}
