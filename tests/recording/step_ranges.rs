//! Step ranges: from one collective of the largest communicator to another, the same on all ranks.

use std::collections::{BTreeMap, BTreeSet};

use whole_plugin::archive::Archive;
use whole_plugin::machine::{python, tested};
use whole_plugin::process::{LIMIT, run, start};
use whole_plugin::scratch::Scratch;

use crate::switches::{control, give, switch};

const VARIABLE: &str = "NCCL_OTF2_STEPS";

/// All ranks were compared, and none differs.
fn ranks_are_equal(archive: &Archive) {
    let properties = archive.properties();
    let judged = ["MATCHING_UNKNOWN", "RANKS_BEHIND", "MISMATCH"];
    let found = properties.iter().find(|(name, _)| judged.iter().any(|judged| name.contains(judged)));
    assert_eq!(found, None);
}

/// The archive of real NCCL: two processes of two ranks each.
fn nccl(release: &str, arguments: &[&str], steps: &str) -> Option<(Scratch, Archive)> {
    let scratch = Scratch::new();
    let ranks = ["--procs", "2", "--threads", "2", "--exact", "--count", "64"];
    let mut job = scratch.nccl(release, &[&ranks[..], arguments].concat())?;
    let _ended = run(job.env(VARIABLE, steps)).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.sound_archive();
    Some((scratch, archive))
}

#[test]
fn all_ranks_record_the_same_collectives() {
    const RANKS: u64 = 4;
    for version in tested(["2.23.4", "2.26.5", "2.28.9", "2.32.3"], |release| release) {
        let Some((_scratch, archive)) = nccl(version, &["--ops", "one", "--rounds", "60"], "20-40") else {
            return;
        };
        ranks_are_equal(&archive);
        let mut by_rank: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for region in archive.regions().into_iter().filter(|region| region.name == "NCCL AllReduce") {
            if let Some(sequence) = region.number("nccl.seq") {
                by_rank.entry(region.location).or_default().push(sequence);
            }
        }
        assert_eq!(by_rank.len() as u64, RANKS, "{version}: {by_rank:?}");
        // NCCL counts from 0.
        assert!(by_rank.values().all(|sequence| sequence.iter().copied().eq(19..40)), "{version}: {by_rank:?}");
        let kinds: &[&str] = match version {
            "2.23.4" | "2.26.5" => &["COLL", "GROUP"],
            _ => &["COLL", "GROUP", "COLLAPI", "GROUPAPI", "KERNELLAUNCH"],
        };
        for kind in kinds {
            let counts =
                ["SEEN", "NOT_SELECTED", "LOST", "ORPHAN"].map(|what| archive.count(&format!("{kind}::{what}")));
            assert_eq!(counts, [21 * RANKS, 39 * RANKS, 0, 0], "{version}: {kind}");
        }
        assert!(archive.count("PROXYOP::SEEN") > 0, "{version}");
        assert_eq!(archive.count("PROXYOP::ORPHAN"), 0, "{version}");
        let list = &archive.properties()["NCCL::MEASUREMENT::LIST"];
        let lines = list.lines().filter(|line| line.contains("by steps 20-40"));
        // Off from the beginning, on, off.
        assert_eq!(lines.count() as u64, 3 * RANKS, "{version}: {list}");
        let Some(python) = python() else { return };
        let contents = archive.contents(&python);
        let ends: Vec<u64> =
            contents.collectives.values().flat_map(|by_location| by_location.values().copied()).collect();
        assert_eq!(ends, [21; 4], "{version}: {:?}", contents.collectives);
    }
}

/// The calls that a CUDA graph captures count once, and all its replays are recorded or none. NCCL before 2.28 reports
/// replays only, and each counts. The graph has one all-reduce and is launched three times, then come three
/// all-reduces.
#[test]
fn captured_calls_count_as_nccl_reports_them() {
    const RANKS: u64 = 4;
    for (version, steps, calls, ran) in [
        ("2.32.3", "1-1", Some(1), 3),
        ("2.32.3", "2-2", Some(1), 1),
        ("2.32.3", "1-2", Some(2), 4),
        ("2.27.7", "1-1", None, 1),
        ("2.27.7", "2-4", None, 3),
    ] {
        let Some((_scratch, archive)) = nccl(version, &["--ops", "graph,repeat", "--iterations", "3"], steps) else {
            return;
        };
        let about = format!("{version}, steps {steps}");
        assert_eq!(archive.count("COLL::SEEN"), ran * RANKS, "{about}");
        if let Some(calls) = calls {
            assert_eq!(archive.count("COLLAPI::SEEN"), calls * RANKS, "{about}");
        }
    }
}

/// The processes have several communicators: the first of the largest counts, on all ranks.
#[test]
fn one_of_several_communicators_is_counted() {
    for version in tested(["2.23.4", "2.32.3"], |release| release) {
        let Some((_scratch, archive)) = nccl(version, &["--ops", "several", "--rounds", "6"], "2-4,9-11") else {
            return;
        };
        let Some(python) = python() else { return };
        let contents = archive.contents(&python);
        // Collective records of the counted communicator only, as many on each rank.
        let with_records: BTreeSet<&str> =
            contents.collectives.keys().filter_map(|key| key.split_once(' ').map(|(_, comm)| comm)).collect();
        assert_eq!(with_records.len(), 1, "{version}: {:?}", contents.collectives);
        let mut by_rank: BTreeMap<&str, u64> = BTreeMap::new();
        for (rank, ends) in contents.collectives.values().flatten() {
            *by_rank.entry(rank).or_default() += ends;
        }
        let ends: Vec<u64> = by_rank.into_values().collect();
        assert_eq!(ends, [6; 4], "{version}: {:?}", contents.collectives);
        let unknown = &archive.properties()["NCCL::MATCHING_UNKNOWN::LIST"];
        assert!(unknown.contains("recording was switched off or on"), "{unknown}");
        let counted = with_records.first().expect("one");
        assert!(!unknown.contains(counted), "{counted}: {unknown}");
    }
}

/// Both ranks, one after the other, as scripts with these ranges.
fn both(scripts: [String; 2], steps: [&str; 2], options: &[&str]) -> Scratch {
    let scratch = Scratch::new();
    for (script, steps) in scripts.into_iter().zip(steps) {
        let mut command = scratch.script(&script);
        let _ended = run(command.args(options).env(VARIABLE, steps)).with_code(0);
    }
    // A mismatch between ranks is code 1.
    let _finalized = scratch.finalize();
    scratch
}

/// Calls in groups of these sizes, and NCCL's operations for them.
fn script(rank: u32, groups: &[u32]) -> String {
    let mut script = format!("init c id=0x1234 name=train ranks=2 rank={rank}\n");
    for &calls in groups {
        script.push_str("start ga GroupApi ctx=c depth=2\n");
        for call in 0..calls {
            script.push_str(&format!(
                "start ca%{call} CollApi ctx=c parent=ga func=AllReduce count=7 datatype=ncclFloat32\nstop ca%{call}\n"
            ).replace('%', ""));
        }
        script.push_str("start kl KernelLaunch ctx=c parent=ga\nstop kl\nstart g Group ctx=c\n");
        for call in 0..calls {
            script.push_str(&format!(
                "start co{call} Coll ctx=c parent=ca{call} group=g func=AllReduce count=7 datatype=ncclFloat32 channels=1 warps=8\nstart op ProxyOp ctx=c parent=co{call} channel=0 peer=1 is_send=1\nstop op\nstop co{call}\n"
            ));
        }
        script.push_str("stop g\nstop ga\n");
    }
    script.push_str("finalize c\n");
    script
}

#[test]
fn a_range_begins_and_ends_within_groups() {
    for table in ["4", "7"] {
        let scripts = [0, 1].map(|rank| script(rank, &[1, 3, 2, 4, 1]));
        let scratch = both(scripts, ["3-8"; 2], &["--table", table]);
        let archive = scratch.sound_archive();
        ranks_are_equal(&archive);
        let counts =
            |kind: &str| ["SEEN", "NOT_SELECTED", "ORPHAN"].map(|what| archive.count(&format!("{kind}::{what}")));
        assert_eq!(counts("COLL"), [12, 10, 0], "table {table}");
        assert_eq!(counts("PROXYOP")[0], 12, "table {table}");
        if table == "7" {
            assert_eq!(counts("COLLAPI"), [12, 10, 0]);
            // A group counts as its first call; its launch as the last one.
            assert_eq!(counts("GROUPAPI"), [4, 6, 0]);
            assert_eq!(counts("KERNELLAUNCH"), [4, 6, 0]);
        } else {
            assert_eq!(counts("GROUP"), [4, 6, 0]);
        }
        let ends = archive.events();
        let ends = ends.lines().filter(|line| line.starts_with("MPI_COLLECTIVE_END"));
        assert_eq!(ends.count(), 12, "table {table}");
    }
}

#[test]
fn ranks_with_different_ranges_are_not_compared() {
    let scratch = both([0, 1].map(|rank| script(rank, &[1; 12])), ["3-8", "2-8"], &[]);
    let archive = scratch.archive();
    archive.validate();
    let properties = archive.properties();
    assert!(!properties.contains_key("NCCL::RANKS_BEHIND"), "{properties:?}");
    let unknown = &properties["NCCL::MATCHING_UNKNOWN::LIST"];
    assert!(
        unknown.contains("train (2): rank 1: a different range of collectives was selected")
            || unknown.contains("train (2): rank 0: a different range of collectives was selected"),
        "{unknown}"
    );
}

#[test]
fn a_difference_between_ranks_has_its_number() {
    let [first, second] = [0, 1].map(|rank| script(rank, &[1; 12]));
    // The 7th call, and its operation.
    let at = second.match_indices("start ga").nth(6).expect("many").0;
    let (before, rest) = second.split_at(at);
    let second = before.to_owned() + &rest.replacen("count=7", "count=8", 2);
    let scratch = both([first, second], ["1-2,5-9"; 2], &[]);
    let properties = scratch.archive().properties();
    let found = &properties["NCCL::MISMATCH::COUNT::LIST"];
    assert!(found.contains("train (2): collective 7: "), "{found}");
}

#[test]
fn the_control_file_sets_ranges_too() {
    // There from the beginning: as if the job had been started with it.
    let scratch = Scratch::new();
    control(&scratch.out(), "steps 3-8\n");
    for rank in 0..2 {
        let _ended = run(&mut scratch.script(&script(rank, &[1; 12]))).with_code(0);
    }
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    ranks_are_equal(&archive);
    assert_eq!(archive.count("COLL::SEEN"), 12);

    // While it runs: calls that were not recorded count too.
    let scratch = Scratch::new();
    control(&scratch.out(), "recording off\n");
    let whole = script(0, &[1; 12]);
    let (first, rest) = whole.split_at(whole.match_indices("start ga").nth(4).expect("many").0);
    let running = start(&mut scratch.script(&format!("{first}take rest\n{rest}")));
    scratch.wait_for_recording(1);
    // Off, on, and the ranges.
    switch(&scratch, "recording on\nsteps 6-8\n", 3);
    give(&scratch, "rest");
    let _ended = running.wait(LIMIT).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("COLLAPI::SEEN"), 3);
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 9);
    let list = &archive.properties()["NCCL::MEASUREMENT::LIST"];
    assert!(list.contains(": on, ") && list.contains("by steps 6-8 of rank 0"), "{list}");
    // The ranks see the file at different times.
    let records = archive.events();
    assert!(!records.contains("MPI_COLLECTIVE_END"), "{records}");
}

#[test]
fn a_larger_communicator_becomes_the_counted_one() {
    let scratch = Scratch::new();
    let calls = |context: &str, calls: u32| {
        let call = "start ca CollApi ctx=CTX func=AllReduce count=7 datatype=ncclFloat32\nstop ca\n";
        call.replace("CTX", context).repeat(usize::try_from(calls).expect("few"))
    };
    let script = format!(
        "init small id=0x1 name=small ranks=2 rank=0\n{}init large id=0x2 name=large ranks=4 rank=0\n{}{}finalize large\n{}finalize small\n",
        calls("small", 2),
        calls("large", 2),
        calls("small", 3),
        calls("small", 5),
    );
    let mut command = scratch.script(&script);
    let _ended = run(command.env(VARIABLE, "2-3,10-")).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    archive.validate();
    // The 2nd of the small one; the 2nd of the large one, and the calls until its range ended: all 3 of the small one;
    // then the small one counts again: the last of the 6th to 10th.
    assert_eq!(archive.count("COLLAPI::SEEN"), 1 + 1 + 3 + 1);
    assert!(!archive.events().contains("MPI_COLLECTIVE_END"), "no operations were enqueued");
}
