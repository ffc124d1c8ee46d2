//! A real Score-P, if there is one.

use std::process::Command;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::has;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::job::{ROW, all_reduces};

/// `scorep-preload-init` and the libraries that it names need a shared build.
#[test]
fn a_real_score_p_records_calls_and_operations() {
    if !has("scorep-config") || !has("scorep-preload-init") {
        // There is no package of it, so a machine without it is no failure.
        eprintln!("skipped: there is no scorep-config on PATH (Score-P, built with --enable-shared)");
        return;
    }
    for threads in ["none", "pthread"] {
        let scratch = Scratch::new();
        let mut command = scratch.script(&all_reduces(200));
        let mut init = Command::new("scorep-preload-init");
        init.args(["--value-only", "--user", "--mpp=none"]).arg(format!("--thread={threads}"));
        init.arg(built::plugin_host()).current_dir(scratch.path());
        let preload = run(&mut init).with_code(0).stdout;
        command
            .env("LD_PRELOAD", preload.trim())
            .env("SCOREP_ENABLE_TRACING", "true")
            .env("SCOREP_EXPERIMENT_DIRECTORY", "experiment");
        let _ended = run(&mut command).with_code(0);
        let mut print = Command::new("otf2-print");
        print.arg(scratch.path().join("experiment/traces.otf2")).arg("-G");
        let definitions = run(&mut print).with_code(0).stdout;
        assert!(definitions.contains(ROW), "{definitions}");
        let mut print = Command::new("otf2-print");
        print.arg(scratch.path().join("experiment/traces.otf2"));
        let events = run(&mut print).with_code(0).stdout;
        let entered = |region: &str| {
            let named = format!("\"{region}\"");
            events.lines().filter(|line| line.starts_with("ENTER") && line.contains(&named)).count()
        };
        assert_eq!((entered("ncclAllReduce"), entered("AllReduce")), (200, 200));
        assert_eq!(scratch.archive().check()["faults"], 0);
        // The same process recorded both with the same counter, so merging reports nothing.
        let mut merge = scratch.plain(built::nccl_otf2());
        merge.arg("merge").arg("experiment").arg(scratch.out());
        let merged = run(merge.args(["-o", "merged"])).with_code(0);
        assert!(merged.stdout.contains("host and process id"), "{merged}");
        let merged = Archive::open(&scratch.path().join("merged"));
        assert_eq!(merged.check()["faults"], 0);
        merged.validate();
    }
}
