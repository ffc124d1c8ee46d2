//! Recorded jobs, replayed through the built plugin: what went in is what stands in the archive.

use std::collections::BTreeMap;

use whole_plugin::archive::{Contents, Tally, trace_files};
use whole_plugin::machine::{four_gpu_stream, python, two_process_streams};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

fn tally(numbers: &[(&str, u64)]) -> Tally {
    numbers.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn one_process_with_four_gpus() {
    let Some(stream) = four_gpu_stream() else {
        return;
    };
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(&[stream])).with_code(0);

    let archive = scratch.archive();
    let report = archive.sound();
    // Played faster than recorded, the GPU stamps may contradict the host's times. Nothing else is wrong.
    assert!(report["findings"].as_array().expect("a list").iter().all(|finding| finding["rule"] == "T06"), "{report}");
    for (kind, seen, written) in [
        ("GROUPAPI", 1, 1),
        ("COLLAPI", 4, 4),
        ("KERNELLAUNCH", 4, 4),
        ("GROUP", 4, 4),
        ("COLL", 4, 4),
        ("KERNELCH", 96, 96),
        ("PROXYCTRL", 24, 24),
    ] {
        assert_eq!(archive.count(&format!("{kind}::SEEN")), seen, "{kind}");
        assert_eq!(archive.count(&format!("{kind}::WRITTEN")), written, "{kind}");
    }

    let contents = archive.contents(&python);
    let [(comm, members)] = contents.comms.as_slice() else { panic!("one communicator: {:?}", contents.comms) };
    assert_eq!(members.len(), 4);
    for (rank, member) in members.iter().enumerate() {
        assert!(member.ends_with(&format!("{comm} rank {rank}")), "{member}");
    }
    assert_eq!(contents.calls["ncclAllReduce"], 4);
    assert_eq!(contents.calls["NCCL launch"], 4);
    for (state, times) in
        [("ProxyIdle", 4), ("ProxyActive", 4), ("ProxySleep", 8), ("ProxyWakeup", 8), ("ProxyAppend", 8)]
    {
        assert_eq!(contents.calls[state], times, "{state}");
    }
    assert_eq!(contents.operations, tally(&[("NCCL AllReduce", 4), ("kernel channel", 96)]));
    let everywhere = members.iter().map(|member| (member.clone(), 1)).collect();
    let expected = BTreeMap::from([(format!("ALLREDUCE {comm}"), everywhere)]);
    assert_eq!(contents.collectives, expected);
    assert_eq!(contents.unfinished, Tally::new());
}

/// Two processes at the same time into one directory, through the table of one version.
fn two_processes(table: u32, rank_environment: bool) {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let mut command = scratch.replay(&two_process_streams());
    command.args(["--table", &table.to_string()]);
    if rank_environment {
        command.arg("--rank-environment");
    }
    let _replayed = run(&mut command).with_code(0);

    let archive = scratch.archive();
    let before = trace_files(&scratch.out());
    let report = archive.sound();
    assert_eq!(report["processes"], 2, "{report}");
    let properties = archive.properties();
    assert_eq!(properties["NCCL::TABLE"], format!("ncclProfiler_v{table}"));
    assert!(!properties.contains_key("NCCL::RANKS_MISSING"), "{properties:#?}");
    assert!(!properties.contains_key("NCCL::COLLECTIVES_UNMATCHED"), "{properties:#?}");
    for (kind, count) in [
        ("COLL", 12),
        ("COLLAPI", 12),
        ("P2P", 12),
        ("PROXYOP", 52),
        ("PROXYSTEP", 176),
        ("PROXYCTRL", 43),
        ("KERNELCH", 34),
    ] {
        assert_eq!(archive.count(&format!("{kind}::SEEN")), count, "{kind}");
        assert_eq!(archive.count(&format!("{kind}::WRITTEN")), count, "{kind}");
        assert_eq!(archive.count(&format!("{kind}::LOST")), 0, "{kind}");
    }
    counted_by_python(&archive.contents(&python));

    let finalized = scratch.finalize().with_code(0);
    assert!(trace_files(&scratch.out()) == before, "there was nothing left to do\n{finalized}");
}

fn counted_by_python(contents: &Contents) {
    let [(comm, members)] = contents.comms.as_slice() else { panic!("one communicator: {:?}", contents.comms) };
    assert_eq!(members.len(), 2);
    let calls = |name: &str| contents.calls.get(name).copied().unwrap_or(0);
    assert_eq!((calls("ncclAllReduce"), calls("ncclAllGather")), (10, 2));
    assert_eq!((calls("ncclSend"), calls("ncclRecv")), (6, 6));
    assert_eq!((calls("netSend"), calls("netRecv")), (26, 26), "proxy operations");
    assert_eq!((calls("send step"), calls("receive step")), (88, 88), "half of the steps send");
    for (operation, count) in [("ALLREDUCE", 5), ("ALLGATHER", 1)] {
        let records = &contents.collectives[&format!("{operation} {comm}")];
        let by_rank: BTreeMap<&str, u64> =
            records.iter().map(|(location, count)| (location.as_str(), *count)).collect();
        let expected = members.iter().map(|member| (member.as_str(), count)).collect();
        assert_eq!(by_rank, expected, "{operation}");
    }
    assert_eq!(contents.collectives.len(), 2);
    assert_eq!(contents.unfinished, Tally::new());
}

#[test]
fn two_processes_make_one_archive() {
    two_processes(5, false);
    two_processes(7, true);
}
