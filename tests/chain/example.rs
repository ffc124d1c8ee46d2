//! NVIDIA's example plugin behind this one, built from NCCL's published source where that is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::machine::{has, say};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// A checkout of NCCL's repository. Nothing is downloaded by a test.
const SOURCE: &str = "NCCL_OTF2_TEST_NCCL_SOURCE";

/// Builds the example; None, with the reason, where that cannot be.
fn example(scratch: &Scratch) -> Option<PathBuf> {
    let Some(source) = std::env::var_os(SOURCE).map(PathBuf::from) else {
        say(&format!("{SOURCE} names no checkout of NCCL, whose example plugin this test builds"));
        return None;
    };
    let folders = ["plugins/profiler/example", "ext-profiler/example"].map(|folder| source.join(folder));
    let folder = folders.iter().find(|folder| folder.is_dir());
    let Some(folder) = folder.filter(|_| has("c++")) else {
        say(&format!("{} has no example plugin, or there is no compiler", source.display()));
        return None;
    };
    build(scratch, folder)
}

fn build(scratch: &Scratch, folder: &Path) -> Option<PathBuf> {
    let file = scratch.path().join("libnccl-profiler-example.so");
    // The releases up to 2.28 name types of CUDA, and call none of its functions.
    let header = "typedef struct CUstream_st *cudaStream_t; typedef struct CUevent_st *cudaEvent_t;\n";
    std::fs::write(scratch.path().join("cuda_runtime.h"), header).expect("written");
    let ends = |end: &str| {
        let files = std::fs::read_dir(folder).expect("list").map(|entry| entry.expect("an entry").path());
        files.filter(|path| path.extension().is_some_and(|found| found == end)).collect::<Vec<_>>()
    };
    let (program, sources) = if ends("cc").is_empty() { ("cc", ends("c")) } else { ("c++", ends("cc")) };
    let mut compiler = Command::new(program);
    compiler.args(["-O1", "-w", "-shared", "-fPIC", "-Wl,-z,defs", "-I"]).arg(scratch.path());
    compiler.arg("-I").arg(folder.join("nccl")).arg("-I").arg(folder).args(sources).arg("-o").arg(&file);
    let ended = run(&mut compiler);
    if !ended.status.success() {
        say(&format!("NVIDIA's example cannot be built here: {}", ended.stderr.lines().next().unwrap_or_default()));
        return None;
    }
    Some(file)
}

/// With the default sizes each communicator asks for more than 13 GiB, and `init` fails.
const POOLS: [&str; 5] = ["COLL", "P2P", "COLL_API", "P2P_API", "PROXY_DETACH"];

/// How many calls and operations the example wrote, by category; of a job that loads this plugin.
fn written(release: &str, example: &Path, is_alone: bool) -> Option<BTreeMap<&'static str, usize>> {
    let scratch = Scratch::new();
    let mut job = scratch.nccl(release, &["--procs", "2", "--threads", "1", "--exact"])?;
    job.env("NCCL_PROFILE_EVENT_MASK", "4095").env("NCCL_PROFILE_DUMP_FILE", scratch.path().join("example"));
    for pool in POOLS {
        job.env(format!("NCCL_PROFILE_{pool}_POOL_SIZE"), "8");
    }
    if is_alone {
        job.env("NCCL_PROFILER_PLUGIN", example);
    } else {
        job.env("NCCL_OTF2_CHAIN", example).env("NCCL_OTF2_EVENTS", "standard");
    }
    let _ended = run(&mut job).with_code(0);
    if !is_alone {
        let properties = scratch.sound_archive().properties();
        assert!(properties["NCCL::CHAIN::PLUGINS"].starts_with(&example.display().to_string()), "{properties:#?}");
        assert!(!properties.contains_key("NCCL::CHAIN::LEFT_OUT"), "{properties:#?}");
    }
    let dumps = std::fs::read_dir(scratch.path()).expect("list").map(|entry| entry.expect("an entry").path());
    let dumps = dumps.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let texts: String = dumps.map(|dump| std::fs::read_to_string(dump).expect("a dump")).collect();
    let count = |category: &'static str| {
        let begin = format!("\"cat\": \"{category}\", \"ph\": \"b\"");
        (category, texts.matches(&begin).count())
    };
    Some(["GROUP_API", "COLL_API", "P2P_API", "COLL", "P2P", "KERNEL_LAUNCH"].map(count).into())
}

#[test]
fn nvidias_example_writes_the_same_behind_this_plugin() {
    let scratch = Scratch::new();
    let Some(example) = example(&scratch) else { return };
    let Some(alone) = written("2.28.9", &example, true) else { return };
    let behind = written("2.28.9", &example, false).expect("the same release");
    assert!(alone["COLL"] > 10, "{alone:?}");
    assert_eq!(behind, alone);
}
