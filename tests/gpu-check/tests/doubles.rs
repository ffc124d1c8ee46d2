//! The checks on the doubles of GPU and CUPTI: they find what is right to be right, and what is wrong to be wrong.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::nccl_library;
use whole_plugin::process::run;

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
            (built::plugin(), "lib/libnccl-profiler-otf2.so"),
            (built::fake_gpu(), "fake/libfakegpu.so"),
            (built::fake_gpu(), "fake/libcuda.so.1"),
            (built::fake_cupti(), "fake/libcupti.so.13"),
        ] {
            std::fs::hard_link(&built, folder.path().join(to))
                .unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        }
        Self { folder }
    }

    fn check(&self, nccl: PathBuf, only: &str, variable: (&str, &str)) -> Vec<Value> {
        let json = self.folder.path().join("result.json");
        let mut command = Command::new(self.folder.path().join("gpu-check"));
        command.args(["--fake-gpu", "--only", only, "--nccl"]).arg(nccl);
        command.arg("--json").arg(&json).env_remove("LD_LIBRARY_PATH");
        command.env(variable.0, variable.1);
        let ended = run(&mut command);
        let text = std::fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}\n{ended}"));
        let value: Value = serde_json::from_str(&text).unwrap();
        let checks = value["checks"].as_array().unwrap().clone();
        let any_failed = checks.iter().any(|check| check["verdict"] == "failed");
        assert_eq!(ended.status.success(), !any_failed, "{ended}");
        checks
    }

    fn probe(&self, only: &str, variable: (&str, &str)) -> Vec<Value> {
        self.check("/there/is/none".into(), only, variable)
    }
}

#[test]
fn every_release_of_the_double_is_as_supposed() {
    const PROBES: &str = "function-ids,two-tools,fork,refused-buffer";
    let bundle = Bundle::new();
    for (level, survives) in [("18", false), ("28", true), ("130101", true), ("130500", true)] {
        for check in bundle.probe(PROBES, ("FAKECUPTI_API", level)) {
            assert_eq!(check["verdict"], "ok", "CUPTI {level}: {check:#}");
            if check["name"] == "refused-buffer" {
                assert_eq!(check["facts"]["survived"], survives, "CUPTI {level}");
            }
        }
    }
}

#[test]
fn what_is_not_as_supposed_is_told() {
    let bundle = Bundle::new();
    for (name, variable, says) in [
        ("function-ids", ("FAKECUPTI_DROP", "5"), "195 kernels of 200"),
        ("function-ids", ("FAKECUPTI_INIT", "15"), "CUPTI_ERROR_NOT_INITIALIZED"),
        ("fork", ("FAKECUPTI_DROP", "1"), "19 kernel records of 20"),
        // A crash is a line of the table, and no more.
        ("fork", ("FAKECUPTI_API", "1"), "signal"),
        ("device", ("FAKECUPTI_DROP", "1"), "needs a GPU"),
    ] {
        let check = &bundle.probe(name, variable)[0];
        let verdict = if says == "needs a GPU" { "not here" } else { "failed" };
        assert_eq!(check["verdict"], verdict, "{variable:?}: {check:#}");
        assert!(check["why"].as_str().unwrap().contains(says), "{variable:?}: {check:#}");
    }
}

#[test]
fn kernels_of_real_nccl_are_counted() {
    let Some(nccl) = nccl_library("2.28.9") else {
        return;
    };
    let bundle = Bundle::new();
    let check = &bundle.check(nccl.clone(), "nccl-kernels", ("FAKECUPTI_DROP", "0"))[0];
    assert_eq!(check["verdict"], "ok", "{check:#}");
    let facts = &check["facts"];
    assert!(facts["launches"].as_u64() > Some(0) && facts["launches"] == facts["kernels_joined"]);
    assert!(facts["kernel_names"][0].as_str().unwrap().contains("ncclDevKernel"));
    let check = &bundle.check(nccl, "nccl-kernels", ("FAKECUPTI_DROP", "3"))[0];
    assert!(check["why"].as_str().unwrap().contains("kernels joined to them"), "{check:#}");
}
