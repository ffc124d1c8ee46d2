//! NCCL's published libraries on the stand-in for a GPU, recorded by the built plugin under `nccl-otf2 run`: the
//! archive holds exactly what the program that called NCCL says it called.

use std::path::Path;
use std::process::Command;

use whole_plugin::machine::{python, tested};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::{archive::Archive, built};

/// Four ranks: two processes of two threads, every operation once.
fn recorded_run(version: &str, table: u32) {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let arguments = ["--procs", "2", "--threads", "2", "--exact", "--log", "log"];
    let Some(mut job) = scratch.run_nccl(version, &[], &arguments) else {
        return;
    };
    // nccl-host ends with 0 only when all results are right.
    let _ended = run(&mut job).with_code(0);

    let archive = scratch.archive();
    let report = archive.sound();
    assert_eq!(report["remarks"], 0, "{report}");
    let properties = archive.properties();
    assert_eq!(properties["NCCL::VERSION"], version);
    assert_eq!(properties["NCCL::TABLE"], format!("ncclProfiler_v{table}"));
    assert_eq!(properties["NCCL::PARTS"].lines().count(), 2);
    compare_counts(&python, &archive, &scratch.path().join("log"));
}

/// The comparison of the demo: calls, collective records and proxy operations, number for number.
fn compare_counts(python: &Path, archive: &Archive, log: &Path) {
    let script = built::root().join("xtask/python/compare_counts.py");
    let mut compare = Command::new(python);
    compare.arg(script).arg(archive.anchor()).arg(log);
    let ended = run(&mut compare).with_code(0);
    assert!(ended.stdout.contains("proxy operations"), "{ended}");
}

#[test]
fn what_was_called_is_in_the_archive() {
    for (version, table) in tested([("2.23.4", 1), ("2.28.9", 5), ("2.32.3", 7)], |case| case.0) {
        recorded_run(version, table);
    }
}

/// NCCL 2.29 and later report broadcasts only if they do not fuse them, which a file of NCCL's can say, too.
#[test]
fn broadcasts_are_operations_where_nccl_does_not_fuse_them() {
    for (version, setting, records) in tested(
        [
            ("2.30.7", None, 0),
            ("2.30.7", Some("0"), 12),
            ("2.32.3", None, 0),
            ("2.32.3", Some("0"), 12),
            ("2.32.3", Some("1"), 0),
            ("2.32.3", Some("off"), 0),
        ],
        |case| case.0,
    ) {
        let scratch = Scratch::new();
        let arguments = ["--procs", "3", "--threads", "1", "--exact", "--ops", "broadcast,bcasts"];
        let Some(mut job) = scratch.run_nccl(version, &[], &arguments) else {
            return;
        };
        if let Some(value) = setting {
            let file = scratch.path().join("nccl.conf");
            std::fs::write(&file, format!("NCCL_ALLGATHERV_ENABLE={value}\n")).expect("written");
            job.env("NCCL_CONF_FILE", file);
        }
        let _ended = run(&mut job).with_code(0);
        let archive = scratch.archive();
        let _report = archive.sound();
        let events = archive.events();
        let found = events.lines().filter(|line| line.starts_with("MPI_COLLECTIVE_END") && line.contains("BCAST"));
        assert_eq!(found.count(), records, "{version} {setting:?}");
        assert_eq!(events.contains("netSend"), records > 0, "{version} {setting:?}");
        let spots = archive.properties().remove("NCCL::UNREPORTED").expect("there are others");
        assert_eq!(spots.contains("NCCL_ALLGATHERV_ENABLE=0 makes NCCL report"), records == 0, "{version}: {spots}");
    }
}

/// Each callback of a real NCCL is one record: the relay counts them in front of the plugin, in the same run, so that
/// also what differs from run to run must be equal. Where there is no room it is counted as lost, kind by kind.
#[test]
fn every_callback_is_recorded_or_lost() {
    for (version, size, loses) in tested(
        [
            ("2.23.4", "8G", false),
            ("2.28.9", "8G", false),
            ("2.32.3", "8G", false),
            ("2.23.4", "3M", true),
            ("2.32.3", "3M", true),
        ],
        |case| case.0,
    ) {
        let Some(said) = compare_callbacks(version, size) else {
            return;
        };
        assert_eq!(!said.contains(", 0 lost"), loses, "{version}: {said}");
    }
}

/// The output of the comparison, which fails where anything differs; `None` where it cannot be made.
fn compare_callbacks(version: &str, max_size: &str) -> Option<String> {
    let python = python()?;
    let scratch = Scratch::new();
    let relay = "libnccl-profiler-relay.so";
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-Wl,-z,nodelete", "-o"]);
    compiler.arg(scratch.path().join(relay));
    compiler.arg(built::root().join("tests/doubles/fake-gpu/nccl-plugins/relay.c"));
    let _ = run(compiler.arg("-lpthread")).with_code(0);

    let counts = scratch.path().join("relay");
    let mut job = scratch.nccl(version, &["--procs", "2", "--threads", "2", "--exact"])?;
    job.env("NCCL_PROFILER_PLUGIN", relay)
        .env("LD_LIBRARY_PATH", scratch.path())
        .env("RELAY_PLUGIN", built::plugin())
        .env("RELAY_OUT", &counts)
        .env("NCCL_OTF2_EVENTS", "full")
        .env("NCCL_OTF2_MAX_SIZE", max_size)
        .env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let _ = run(&mut job).with_code(0);

    let mut compare = Command::new(&python);
    compare.arg("-B");
    compare.arg(built::root().join("xtask/python/callbacks.py"));
    compare.arg(&counts).arg(scratch.out());
    let ended = run(&mut compare).with_code(0);
    let _archive = scratch.finalize().with_code(0);
    let _report = scratch.archive().check();
    Some(ended.stdout)
}

#[test]
fn an_archive_says_whether_communication_may_be_missing() {
    for (options, operations, is_complete) in [
        (&[][..], "allreduce,sendrecv,alltoall", "true"),
        (&["--events", "Coll"], "allreduce,sendrecv", "false"),
        (&[], "allreduce,graph", "false"),
        // NCCL reports no broadcasts that it fuses.
        (&[], "allreduce,broadcast", "false"),
    ] {
        let scratch = Scratch::new();
        let arguments = ["--procs", "2", "--threads", "1", "--exact", "--ops", operations];
        let Some(mut job) = scratch.run_nccl("2.32.3", options, &arguments) else {
            return;
        };
        let _ended = run(&mut job).with_code(0);
        let said = scratch.archive().properties().remove("OTF2::MPI_COMMUNICATION_COMPLETE");
        assert_eq!(said.as_deref(), Some(is_complete), "{operations} {options:?}");
    }
}
