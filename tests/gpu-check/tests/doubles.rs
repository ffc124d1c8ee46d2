//! The checks on the doubles of GPU and CUPTI: they find what is right to be right, and what is wrong to be wrong.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::nccl_library;
use whole_plugin::process::run_within;

/// The folder as `cargo xtask gpu-check` makes it, of links to what is built.
struct Bundle {
    folder: tempfile::TempDir,
}

impl Bundle {
    fn new() -> Self {
        let target = built::profile_folder();
        // On the target's file system: a program must be found where it was started, not where a link leads.
        let folder = tempfile::tempdir_in(&target).unwrap();
        for sub in ["bin", "lib", "fake"] {
            std::fs::create_dir(folder.path().join(sub)).unwrap();
        }
        for (built, to) in [
            (PathBuf::from(env!("CARGO_BIN_EXE_gpu-check")), "gpu-check"),
            (built::nccl_host(), "bin/nccl-host"),
            (built::nccl_otf2(), "bin/nccl-otf2"),
            (built::plugin_host(), "bin/plugin-host"),
            (built::plugin(), "lib/libnccl-profiler-otf2.so"),
            (
                target.join("libnccl_profiler_empty.so"),
                "lib/libnccl-profiler-empty.so",
            ),
            (built::fake_gpu(), "fake/libfakegpu.so"),
            (built::fake_cupti(), "fake/libcupti.so.13"),
        ] {
            std::fs::hard_link(&built, folder.path().join(to))
                .unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        }
        std::os::unix::fs::symlink("libfakegpu.so", folder.path().join("fake/libcuda.so.1"))
            .unwrap();
        Self { folder }
    }

    /// Runs checks; what the program wrote, and whether it said that all is well.
    fn check(&self, only: &str, variables: &[(&str, &str)]) -> (Value, bool) {
        // Probes need none; the job that does is given a real one.
        let nccl = if only == "nccl-kernels" {
            nccl_library("2.28.9").unwrap()
        } else {
            PathBuf::from("/there/is/none")
        };
        let json = self.folder.path().join("result.json");
        let mut command = Command::new(self.folder.path().join("gpu-check"));
        command
            .args(["--fake-gpu", "--only", only, "--nccl"])
            .arg(nccl);
        command.arg("--json").arg(&json);
        command.env_remove("LD_LIBRARY_PATH");
        command.envs(variables.iter().copied());
        let ended = run_within(Duration::from_secs(120), &mut command);
        let text =
            std::fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}\n{ended}"));
        let value = serde_json::from_str(&text).unwrap();
        (value, ended.status.success())
    }
}

/// The verdict of a check, and why.
fn verdict<'a>(result: &'a Value, name: &str) -> (&'a str, &'a str) {
    let checks = result["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name}: {result:#}"));
    (
        check["verdict"].as_str().unwrap(),
        check["why"].as_str().unwrap(),
    )
}

const PROBES: &str =
    "function-ids,cupti-clock,two-tools,fork,refused-buffer,small-buffers,kernel-storm";

#[test]
fn every_release_of_the_double_is_as_supposed() {
    let bundle = Bundle::new();
    for level in ["18", "24", "28", "130101", "130301", "130500"] {
        let (result, is_well) = bundle.check(PROBES, &[("FAKECUPTI_API", level)]);
        assert!(is_well, "{result:#}");
        for name in PROBES.split(',') {
            assert_eq!(
                verdict(&result, name),
                ("ok", ""),
                "CUPTI {level}, {name}: {result:#}"
            );
        }
        let refused = result["checks"].as_array().unwrap();
        let refused = refused
            .iter()
            .find(|check| check["name"] == "refused-buffer");
        let survived = refused.unwrap()["facts"]["survived"].as_bool();
        assert_eq!(
            survived,
            Some(level.len() > 2 || level == "28"),
            "CUPTI {level}"
        );
    }
}

#[test]
fn what_is_not_as_supposed_is_told() {
    let bundle = Bundle::new();
    for (name, variable, says) in [
        (
            "function-ids",
            ("FAKECUPTI_DROP", "5"),
            "195 kernels of 200",
        ),
        (
            "function-ids",
            ("FAKECUPTI_INIT", "15"),
            "CUPTI_ERROR_NOT_INITIALIZED",
        ),
        (
            "function-ids",
            ("FAKECUPTI_PARTIAL", "1"),
            "CUPTI_ERROR_INVALID_KIND",
        ),
        ("fork", ("FAKECUPTI_DROP", "1"), "19 kernel records of 20"),
        // After the 3000 that are launched before CUPTI is asked.
        (
            "kernel-storm",
            ("FAKECUPTI_DROP", "3007"),
            "2993 records of 3000, 7 said to be dropped",
        ),
        // What is not ours is freed as if it were: a crash is a line of the table, and no more.
        ("fork", ("FAKECUPTI_FOREIGN_BUFFER", "1"), "signal"),
    ] {
        let (result, is_well) = bundle.check(name, &[variable]);
        let (verdict, why) = verdict(&result, name);
        assert_eq!(verdict, "failed", "{variable:?}: {result:#}");
        assert!(why.contains(says), "{variable:?}: {why}");
        assert!(!is_well, "the exit status says so too");
    }
}

#[test]
fn kernels_of_real_nccl_are_counted() {
    if nccl_library("2.28.9").is_none() {
        return;
    }
    let bundle = Bundle::new();
    let (result, is_well) = bundle.check("nccl-kernels", &[]);
    assert_eq!(verdict(&result, "nccl-kernels"), ("ok", ""), "{result:#}");
    assert!(is_well);
    let facts = &result["checks"][0]["facts"];
    assert!(facts["launches"].as_u64() > Some(0) && facts["launches"] == facts["kernels_joined"]);
    assert!(
        facts["kernel_names"][0]
            .as_str()
            .unwrap()
            .contains("ncclDevKernel")
    );

    let (result, is_well) = bundle.check("nccl-kernels", &[("FAKECUPTI_DROP", "3")]);
    let (verdict, why) = verdict(&result, "nccl-kernels");
    assert_eq!(verdict, "failed", "{result:#}");
    assert!(why.contains("kernels joined to them"), "{why}");
    assert!(!is_well);
}

#[test]
fn what_needs_a_gpu_says_so() {
    let bundle = Bundle::new();
    let (result, is_well) = bundle.check("3,4,5,6,gpu-clock,13,17", &[]);
    assert!(is_well);
    let checks = result["checks"].as_array().unwrap();
    let numbers: BTreeSet<u64> = checks
        .iter()
        .filter_map(|check| check["number"].as_u64())
        .collect();
    assert_eq!(numbers, BTreeSet::from([3, 4, 5, 6, 7, 13, 17]));
    for check in checks {
        assert_eq!(check["verdict"], "not here");
        assert_eq!(check["why"], "needs a GPU");
    }
}
